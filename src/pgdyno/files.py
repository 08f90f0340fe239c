"""Reading of files that a user names, and atomic writing: a reader sees either the old file or the
new one, complete.

Written content is first flushed to a temporary file in the same directory, readable by its owner
only, which then replaces the file. A device or a pipe that a user names is written directly. It is
not read: opening a pipe waits for its other end, and a device may have no end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_HANDED_OVER = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Files that this process has been given open: ``<(command)`` of a shell is a pipe of these."""


def read_at_most(path: Path, bytes_max: int | None) -> bytes:
    """Return the first ``bytes_max`` bytes of a file that a user or another file names, and one
    more if it is longer; without a maximum all of it.

    Raises OSError as :func:`open_named` does.
    """
    with open_named(path) as file:
        return file.read(-1 if bytes_max is None else bytes_max + 1) or b""


def open_named(path: Path) -> BinaryIO:
    """Open a file that a user or another file names, for reading.

    Raises OSError, also for what is neither a file nor a pipe that this process was given: that is
    not opened.
    """
    handed_over = str(path).startswith(_HANDED_OVER)
    _check_readable(path.stat().st_mode, pipe=handed_over)
    # Between the two looks another file may have come in its place.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        _check_readable(os.fstat(file.fileno()).st_mode, pipe=handed_over)
        os.set_blocking(file.fileno(), handed_over)
    except BaseException:
        file.close()
        raise
    return file


def _check_readable(mode: int, *, pipe: bool) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode) and not (pipe and stat.S_ISFIFO(mode)):
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, and not a file")


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
