/*
 * A disk that is slow for reads of data files, and for temporary files. For LD_PRELOAD.
 *
 * EXAM_READ_US and EXAM_TEMP_US are the microseconds that an access takes longer; EXAM_COUNTS is a
 * file of three 64-bit numbers: accesses that were delayed, microseconds that they slept, and not 0
 * once they are to be delayed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static long read_us, temp_us;
static uint64_t *counts;

__attribute__((constructor)) static void begin(void)
{
    const char *reads = getenv("EXAM_READ_US"), *temps = getenv("EXAM_TEMP_US");
    const char *path = getenv("EXAM_COUNTS");
    int fd = path ? open(path, O_RDWR) : -1;
    read_us = reads ? atol(reads) : 0;
    temp_us = temps ? atol(temps) : 0;
    if (fd < 0)
        return;
    counts = mmap(NULL, 24, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED)
        counts = NULL;
    close(fd);
}

static void delay(int fd, int reads)
{
    char link[64], path[4096];
    if (!counts || !__atomic_load_n(&counts[2], __ATOMIC_RELAXED))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return;
    path[length] = 0;
    long us = strstr(path, "/pgsql_tmp/") ? temp_us
        : reads && strstr(path, "/base/") ? read_us : 0;
    if (us <= 0)
        return;
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    nanosleep(&time, NULL);
    __atomic_fetch_add(&counts[0], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts[1], us, __ATOMIC_RELAXED);
}

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    delay(fd, 1);
    return syscall(SYS_pread64, fd, to, bytes, at);
}

ssize_t pread64(int fd, void *to, size_t bytes, off64_t at)
{
    delay(fd, 1);
    return syscall(SYS_pread64, fd, to, bytes, at);
}

ssize_t preadv(int fd, const struct iovec *to, int parts, off_t at)
{
    delay(fd, 1);
    return syscall(SYS_preadv, fd, to, parts, (long) at, 0L);
}

ssize_t preadv64(int fd, const struct iovec *to, int parts, off64_t at)
{
    delay(fd, 1);
    return syscall(SYS_preadv, fd, to, parts, (long) at, 0L);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    delay(fd, 0);
    return syscall(SYS_pwrite64, fd, from, bytes, at);
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at)
{
    delay(fd, 0);
    return syscall(SYS_pwrite64, fd, from, bytes, at);
}

ssize_t pwritev(int fd, const struct iovec *from, int parts, off_t at)
{
    delay(fd, 0);
    return syscall(SYS_pwritev, fd, from, parts, (long) at, 0L);
}
