"""Lock files: the kernel releases a lock with its process, so a held lock has a live owner."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import SetupError


def try_lock(path: Path) -> int | None:
    """Take the exclusive lock on ``path``, which is made if missing.

    Returns the descriptor to keep open (closing it releases the lock), or ``None`` when another
    process has the lock.
    """
    descriptor = _open(path)
    try:
        _take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, path)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Wait for the lock on ``path`` and hold it within the block."""
    descriptor = _open(path)
    try:
        _take(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, path)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise _no_lock(path, problem) from None


def _take(descriptor: int, how: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        raise
    except OSError as problem:
        raise _no_lock(path, problem) from None


def _no_lock(path: Path, problem: OSError) -> SetupError:
    return SetupError(
        f"cannot lock {path}: {problem.strerror}",
        code="state-directory",
        hint="set PGDYNO_HOME to a directory that you may write to, on a file system with locks",
        place=path,
    )
