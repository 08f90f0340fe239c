/* A server that lies: flushes of WAL files return at once and do nothing. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int of_wal(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    return strstr(path, "/pg_wal/") != NULL;
}

int fdatasync(int fd)
{
    return of_wal(fd) ? 0 : (int) syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return of_wal(fd) ? 0 : (int) syscall(SYS_fsync, fd);
}

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags)
{
    return of_wal(fd) ? 0 : (int) syscall(SYS_sync_file_range, fd, offset, length, flags);
}
