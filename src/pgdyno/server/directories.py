"""Where pgdyno keeps clusters, undo files and initdb templates.

``PGDYNO_HOME`` moves everything. Without it, root uses ``/var/lib/pgdyno`` and
``/var/cache/pgdyno``, because the unprivileged account that runs the server cannot enter root's
home; anyone else uses the XDG state and cache directories.

What is made here is closed to others, but for what that account has to pass through.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from pgdyno.errors import SetupError


def state_home() -> Path:
    """The directory for clusters and undo files, made when missing."""
    if given := _given():
        return _made(given)
    if os.geteuid() == 0:
        return _first_made(Path("/var/lib/pgdyno"), Path("/var/tmp/pgdyno"))
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return _made(Path(base) / "pgdyno")


def cache_home() -> Path:
    """The directory for what can be made again at any time, made when missing."""
    if given := _given():
        return _made(given / "cache")
    if os.geteuid() == 0:
        return _first_made(Path("/var/cache/pgdyno"), Path("/var/tmp/pgdyno/cache"))
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return _made(Path(base) / "pgdyno")


def clusters_dir() -> Path:
    """One folder per cluster that pgdyno started."""
    return shared_folder(state_home() / "clusters")


def undo_dir() -> Path:
    """One file per server whose settings pgdyno has changed and not yet restored."""
    folder = _made(state_home() / "undo")
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def _given() -> Path | None:
    """What PGDYNO_HOME names; None: nothing."""
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


def shared_folder(path: Path) -> Path:
    """A directory of ours that the account which runs servers may pass through, made if missing."""
    return _made(path)


def _made(path: Path) -> Path:
    """``path`` as a directory that belongs to us, so that nobody can plant files in it."""
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
    """Make ``path`` and what is missing above it, whatever the umask is."""
    if path.is_dir():
        return
    _make(path.parent)
    with contextlib.suppress(FileExistsError):  # Another pgdyno may be making it too.
        path.mkdir()
        path.chmod(0o755 if os.geteuid() == 0 else 0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
