"""Names of run files, taken before the run begins, so that two runs cannot have the same one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_reserved: dict[Path, int] = {}
"""Empty files that were created here, with the process that did."""


def reserve(path: Path) -> None:
    """Create the empty file ``path`` for a run of this process. Raises OSError if it exists.

    :func:`release` removes the file if no run has used it.
    """
    # SQLite creates the files next to it with the same mode.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    _reserved[path] = os.getpid()


def take(path: Path) -> bool:
    """True if ``path`` was reserved by this process and not used; it is used from now on."""
    return _reserved.pop(path, None) == os.getpid()


def release() -> None:
    """Remove the files that were reserved and not used."""
    for path, process in _reserved.items():
        with suppress(OSError):
            if process == os.getpid() and path.stat().st_size == 0:
                path.unlink()
