"""stdout and stderr as commands use them, whatever they are and whatever becomes of them.

Results go to stdout: when they cannot be written, that is an error like any other, unless whoever
read them has left, which changes nothing. Progress and messages go to stderr: what cannot be
written there is lost, and changes nothing. What an encoding lacks is written as an escape. A stream
that was closed before the start leads nowhere, and its number is taken, so that no file of ours
ever answers to it.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import TextIO

from pgdyno.errors import RunError


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
            _lead_nowhere(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            _lead_nowhere(self)


def prepare() -> None:
    """Make stdout and stderr what this module says. Before any file is opened."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = _as(_Results, sys.stdout, 1)
    sys.stderr = _as(_Messages, sys.stderr, 2)


def _as(kind: type[io.TextIOWrapper], stream: TextIO | None, number: int) -> TextIO:
    if stream is None:
        return kind(open(number, "wb"), encoding="utf-8")
    # ASCII is what Python takes where no locale is set; click writes UTF-8 then, so all of us do.
    encoding = "utf-8" if codecs.lookup(stream.encoding).name == "ascii" else stream.encoding
    at_line_ends = number == 2 or stream.isatty()
    raw = stream.detach()  # type: ignore[attr-defined]
    return kind(raw, encoding=encoding, errors="backslashreplace", line_buffering=at_line_ends)


def _give_up(stream: TextIO, problem: OSError) -> None:
    """RunError, unless whoever read it, or the terminal, is gone: nobody is there to miss it."""
    _lead_nowhere(stream)
    if problem.errno not in (errno.EPIPE, errno.EIO):
        raise RunError(
            f"cannot write the result: {problem.strerror}",
            code="result-unwritable",
            hint="lead stdout to a place that can be written to",
        ) from None


def _lead_nowhere(stream: TextIO) -> None:
    """What is still to be written, and all that will be, is thrown away without another error."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
