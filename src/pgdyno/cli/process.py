"""The command's process: its standard streams, and passwords in its arguments.

``prepare_streams`` makes stdout and stderr handle write errors, missing encodings and closed
streams.

Results go to stdout. A write error there is an error of the command, except if the reader has
closed the pipe, which is ignored. Progress and messages go to stderr; write errors there are
ignored. Characters that the encoding lacks are written as escapes. A stream that was closed before
the start is connected to /dev/null, so that no other file gets its descriptor.

``end`` ends the process.

Every user of the machine can read the arguments of a process: a process list shows them from the
process's own memory (proc(5), arg_start and arg_end in stat). ``hide_passwords`` blanks them there.
"""

from __future__ import annotations

import atexit
import codecs
import ctypes
import errno
import io
import os
import select
import sys
import threading
from pathlib import Path
from typing import NoReturn, TextIO

from pgdyno.errors import RunError
from pgdyno.redact import blank

_ARG_START, _ARG_END = 48, 49
"""Fields of /proc/PID/stat, counted from 1."""


class _Results(io.TextIOWrapper):
    """stdout."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as problem:
            _give_up(self, problem)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as problem:
            _give_up(self, problem)


class _Messages(io.TextIOWrapper):
    """stderr."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            _discard(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            _discard(self)


def prepare_streams() -> None:
    """Replace stdout and stderr. Must be called before any file is opened."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = _as(_Results, sys.stdout, 1)
    sys.stderr = _as(_Messages, sys.stderr, 2)


def _as(kind: type[io.TextIOWrapper], stream: TextIO | None, number: int) -> TextIO:
    if stream is None:
        return kind(open(number, "wb"), encoding="utf-8")
    # Python uses ASCII if no locale is set; click writes UTF-8 then, and so does pgdyno.
    encoding = "utf-8" if codecs.lookup(stream.encoding).name == "ascii" else stream.encoding
    at_line_ends = number == 2 or stream.isatty()
    raw = stream.detach()  # type: ignore[attr-defined]
    return kind(raw, encoding=encoding, errors="backslashreplace", line_buffering=at_line_ends)


def _give_up(stream: TextIO, problem: OSError) -> None:
    """Raise RunError, except if the reader or the terminal is gone."""
    _discard(stream)
    if problem.errno not in (errno.EPIPE, errno.EIO):
        raise RunError(
            f"cannot write the result: {problem.strerror}",
            code="result-unwritable",
            hint="redirect stdout to a writable file",
        ) from None


def _discard(stream: TextIO) -> None:
    """Connect the stream to /dev/null, so that further output causes no errors."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def is_read(stream: TextIO) -> bool:
    """Return whether anybody still reads a stream: false for a pipe whose reader has ended."""
    watched = select.poll()
    watched.register(stream.fileno(), 0)  # Errors are always reported.
    return not any(events & select.POLLERR for _, events in watched.poll(0))


def hide_passwords() -> None:
    """Blank passwords in the process list where /proc allows it; elsewhere they remain visible."""
    try:
        after_name = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        # The fields after the name begin with the third.
        start, end = int(after_name[_ARG_START - 3]), int(after_name[_ARG_END - 3])
    except (OSError, ValueError, IndexError):
        return
    if 0 < start < end:
        for offset, shown in _blanked(ctypes.string_at(start, end - start)):
            ctypes.memmove(start + offset, shown, len(shown))


def _blanked(arguments: bytes) -> list[tuple[int, bytes]]:
    """Return (offset, replacement of the same length) of each argument with a password."""
    changed, offset = [], 0
    for each in arguments.split(b"\0"):
        shown = os.fsencode(blank(os.fsdecode(each)))
        if shown != each:
            changed.append((offset, shown[: len(each)].ljust(len(each))))
        offset += len(each) + 1
    return changed


def end(status: int) -> NoReturn:
    """End the process with ``status``, as the interpreter does except that it takes nothing apart:
    modules and models go with the process, and freeing each of them takes time."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
