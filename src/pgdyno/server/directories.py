"""Directories of pgdyno: clusters, undo files and initdb templates.

``PGDYNO_HOME`` moves all of them. Without it, root uses ``/var/lib/pgdyno`` and
``/var/cache/pgdyno``, because the unprivileged account that runs the server cannot enter root's
home; anyone else uses the XDG state and cache directories.

Directories made here are not accessible to others, except those that the account passes through.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from pgdyno.errors import SetupError


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
    return shared_directory(state_home() / "clusters")


def undo_dir() -> Path:
    """Return the directory with one file for each server whose settings are not yet restored."""
    directory = _made(state_home() / "undo")
    if directory.stat().st_mode & 0o077:
        directory.chmod(0o700)
    return directory


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
        ) from error
    if status.st_uid != os.geteuid():
        raise SetupError(
            f"{path} belongs to another user",
            code="state-directory",
            hint="set PGDYNO_HOME to a directory of your own",
        )
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise SetupError(
            f"{path} is world-writable",
            code="state-directory",
            hint=f"chmod o-w {path}, or set PGDYNO_HOME to another directory",
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
