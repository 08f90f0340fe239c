"""Directories of pgdyno: clusters, snapshots, builds, undo files and initdb templates.

``PGDYNO_HOME`` moves all of them. Without it, root uses ``/var/lib/pgdyno`` and
``/var/cache/pgdyno``, because the unprivileged account that runs the server cannot enter root's
home; anyone else uses the XDG state and cache directories.

Directories made here are not accessible to others, except those that the account passes through.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
from pathlib import Path

from pgdyno.errors import SetupError

# Of Linux's include/uapi/linux/fs.h.
_FS_IOC_GETFLAGS = 0x80086601
_FS_IOC_SETFLAGS = 0x40086602
_FS_TOPDIR_FL = 0x00020000


def state_home() -> Path:
    """Return the directory for clusters and undo files; it is made if missing."""
    if given := _given():
        return _made(given)
    if os.geteuid() == 0:
        return _first_made(Path("/var/lib/pgdyno"), Path("/var/tmp/pgdyno"))
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return _made(Path(base) / "pgdyno")


def cache_home() -> Path:
    """Return the directory for files that can be made again; it is made if missing."""
    if given := _given():
        return _made(given / "cache")
    if os.geteuid() == 0:
        return _first_made(Path("/var/cache/pgdyno"), Path("/var/tmp/pgdyno/cache"))
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return _made(Path(base) / "pgdyno")


def clusters_dir() -> Path:
    """Return the directory with one subdirectory for each cluster that pgdyno started."""
    directory = shared_directory(state_home() / "clusters")
    _spread_subdirectories(directory)
    return directory


def snapshots_dir() -> Path:
    """Return the directory with one subdirectory for each saved state of a server."""
    return shared_directory(state_home() / "snapshots")


def builds_dir() -> Path:
    """Return the directory with one subdirectory for each build of PostgreSQL that was fetched."""
    return shared_directory(state_home() / "builds")


def undo_dir() -> Path:
    """Return the directory with one file for each server whose settings are not yet restored."""
    directory = _made(state_home() / "undo")
    if directory.stat().st_mode & 0o077:
        directory.chmod(0o700)
    return directory


def kernel_dir() -> Path:
    """Return the directory with the record of the kernel's parameters that are not yet restored."""
    return _made(state_home() / "kernel")


def govern_dir() -> Path:
    """Return the directory with one file for each server whose loaders a governor has paused."""
    return _made(state_home() / "govern")


def _given() -> Path | None:
    """Return the directory in PGDYNO_HOME; ``None`` if it is not set."""
    given = os.environ.get("PGDYNO_HOME")
    if given and not given.isprintable():
        raise SetupError(
            f"PGDYNO_HOME is {given!r}, which a server's configuration file cannot contain",
            code="state-directory",
            hint="set it to a directory without control characters in its name",
        )
    return Path(given).absolute() if given else None


def _first_made(preferred: Path, fallback: Path) -> Path:
    try:
        return _made(preferred)
    except SetupError:
        return _made(fallback)


def shared_directory(path: Path) -> Path:
    """Make a directory that the account which runs servers may pass through; return ``path``."""
    return _made(path)


def _made(path: Path) -> Path:
    """Make the directory ``path``; SetupError unless only this user can create files in it."""
    try:
        _make(path)
        status = path.stat()
    except OSError as error:
        raise SetupError(
            f"cannot make the directory {path}: {error.strerror}",
            code="state-directory",
            hint="set PGDYNO_HOME to a directory that you may write to",
            place=path,
        ) from error
    if status.st_uid != os.geteuid():
        raise SetupError(
            f"{path} belongs to another user",
            code="state-directory",
            hint="set PGDYNO_HOME to a directory of your own",
            place=path,
        )
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise SetupError(
            f"{path} is world-writable",
            code="state-directory",
            hint=f"chmod o-w {path}, or set PGDYNO_HOME to another directory",
            place=path,
        )
    return path


def _make(path: Path) -> None:
    """Make ``path`` and its missing parents, independent of the umask."""
    if path.is_dir():
        return
    _make(path.parent)
    with contextlib.suppress(FileExistsError):  # Another pgdyno may be making it too.
        path.mkdir()
        path.chmod(0o755 if os.geteuid() == 0 else 0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def _spread_subdirectories(directory: Path) -> None:
    """Have ext4 keep the subdirectories apart from each other on the disk (see ``chattr +T``).

    Otherwise the thousand files of each new cluster go where those of the last one were removed,
    and an ext4 without a journal looks at every inode that was freed in the last minutes before it
    takes one: a clone then costs ten times as much. Other file systems refuse the flag.
    """
    with contextlib.suppress(OSError):
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            present = fcntl.ioctl(opened, _FS_IOC_GETFLAGS, bytes(struct.calcsize("l")))
            (flags,) = struct.unpack_from("I", present)
            if not flags & _FS_TOPDIR_FL:
                fcntl.ioctl(opened, _FS_IOC_SETFLAGS, struct.pack("l", flags | _FS_TOPDIR_FL))
        finally:
            os.close(opened)
