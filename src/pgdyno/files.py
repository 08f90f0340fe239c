"""Atomic writing of files: a reader sees either the old file or the new one, complete.

The content is first flushed to a temporary file in the same directory, readable by its owner only,
which then replaces the file. A device or a pipe that a user names is written directly.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file ``path`` by ``content``, mode 0600; OSError if that fails."""
    if is_special(path):
        path.write_bytes(content)
        return
    with _beside(path) as (number, partial):
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    _sync_directory(path.parent)


def check_writable(path: Path) -> None:
    """Raise OSError if ``path`` cannot be written later. Missing directories are made."""
    if path.is_dir():
        raise IsADirectoryError(21, "there is a directory of this name")
    if is_special(path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with _beside(path) as (number, _):
        os.close(number)


def is_special(path: Path) -> bool:
    """True if ``path`` exists and is a device, a pipe or a socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[tuple[int, Path]]:
    """Yield a new open file in the directory of ``path``; remove it if it still exists."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".pgdyno-", suffix=".partial")
    try:
        yield number, Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Flush the directory, so that a crash keeps the new name; some file systems cannot."""
    with contextlib.suppress(OSError):
        number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
