"""Where pgdyno keeps clusters, undo files and initdb templates.

``PGDYNO_HOME`` moves everything. Without it, root uses ``/var/lib/pgdyno`` and
``/var/cache/pgdyno``, because the unprivileged account that runs the server cannot enter root's
home; anyone else uses the XDG state and cache directories.
"""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.errors import SetupError


def state_home() -> Path:
    """The directory for clusters and undo files, made when missing."""
    if given := os.environ.get("PGDYNO_HOME"):
        return _made(Path(given).absolute())
    if os.geteuid() == 0:
        return _first_made(Path("/var/lib/pgdyno"), Path("/var/tmp/pgdyno"))
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return _made(Path(base) / "pgdyno")


def cache_home() -> Path:
    """The directory for what can be made again at any time, made when missing."""
    if given := os.environ.get("PGDYNO_HOME"):
        return _made(Path(given).absolute() / "cache")
    if os.geteuid() == 0:
        return _first_made(Path("/var/cache/pgdyno"), Path("/var/tmp/pgdyno/cache"))
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return _made(Path(base) / "pgdyno")


def clusters_dir() -> Path:
    """One folder per cluster that pgdyno started."""
    return _made(state_home() / "clusters")


def undo_dir() -> Path:
    """One file per server whose settings pgdyno has changed and not yet restored."""
    return _made(state_home() / "undo")


def _first_made(preferred: Path, fallback: Path) -> Path:
    try:
        return _made(preferred)
    except SetupError:
        return _made(fallback)


def _made(path: Path) -> Path:
    """``path`` as a directory that belongs to us, so that nobody can plant files in it."""
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        owner = path.stat().st_uid
    except OSError as error:
        raise SetupError(
            f"cannot make the directory {path}: {error.strerror}",
            code="state-directory",
            hint="set PGDYNO_HOME to a directory that you may write to",
        ) from error
    if owner != os.geteuid():
        raise SetupError(
            f"{path} belongs to another user",
            code="state-directory",
            hint="set PGDYNO_HOME to a directory of your own",
        )
    return path
