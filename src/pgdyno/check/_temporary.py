"""The run file of a check that is not to be kept: in a directory of its own, removed at the end.

A check that is killed cannot remove it, so the next one does. A lock shows whether the check that
made a directory is still at work.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.server.locks import try_lock

_PREFIX = "pgdyno-check-"
_LOCK = "lock"
_YOUNG_S = 60.0
"""A younger directory may not have its lock yet."""


@contextlib.contextmanager
def temporary_run_file() -> Iterator[Path]:
    """Yield a path for a run file."""
    _sweep()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        lock = try_lock(Path(name, _LOCK))
        try:
            yield Path(name, "check.db")
        finally:
            if lock is not None:
                os.close(lock)


def _sweep() -> None:
    """Remove what killed checks of this user left."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, PgdynoError):
            status = left.lstat()
            ours = status.st_uid == os.geteuid() and left.is_dir() and not left.is_symlink()
            if not ours or time.time() - status.st_mtime < _YOUNG_S:
                continue
            if (lock := try_lock(left / _LOCK)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
