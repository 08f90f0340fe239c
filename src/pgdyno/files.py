"""Writing files as a whole: there is the old one or the new one, and never a part of either.

What is written is first complete and on the disk beside its place, readable by its owner alone, and
then takes the place in one step. A device or a pipe that a user names is written to as it is.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """``content`` in the file ``path``, mode 0600, instead of what was there; OSError if not."""
    if is_special(path):
        path.write_bytes(content)
        return
    with _beside(path) as (number, partial):
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    _sync_folder(path.parent)


def check_place(path: Path) -> None:
    """Find out now whether ``path`` can be written later; OSError if not. Folders are made."""
    if path.is_dir():
        raise IsADirectoryError(21, "there is a directory of this name")
    if is_special(path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with _beside(path) as (number, _):
        os.close(number)


def is_special(path: Path) -> bool:
    """Whether ``path`` is there and is no file: a device, a pipe, a socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[tuple[int, Path]]:
    """A new file in the folder of ``path``, open; whatever is left of it at the end is removed."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".pgdyno-", suffix=".partial")
    try:
        yield number, Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """So that a crash does not take the new name back; some file systems cannot."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
