"""Child processes that undo what pgdyno did when it ends, also by kill -9: how they are started,
and how they notice its end.

Such a process runs in a process session of its own, which the terminal's Ctrl-C and signals to
pgdyno's process group do not reach. Its standard input is a pipe from pgdyno, and closes when that
ends. Imports only a small part of the standard library, since such a process may wait during every
load.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

READY = "ready"
"""The answer to what was done as asked."""
_ANSWER_S_MAX = 30.0
_LOOK_S = 1.0


class Guardian:
    """pgdyno's side of a process that answers lines, each with one."""

    def __init__(
        self, module: str, *, keeps: Sequence[int], stderr: int = subprocess.DEVNULL
    ) -> None:
        """Start ``python -m module``, which keeps the descriptors ``keeps`` (locks) open."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
            pass_fds=keeps,
        )

    def write(self, line: bytes) -> None:
        """Send a line without its end. Raises OSError if the process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")

    def answer(self) -> str:
        """Return the next line that it writes; '' if it has ended."""
        assert self._process.stdout is not None
        with suppress(OSError):
            readable, _, _ = select.select([self._process.stdout], [], [], _ANSWER_S_MAX)
            if not readable:
                return "no answer"
            return self._process.stdout.readline().decode(errors="replace").strip()
        return ""

    def detach(self) -> None:
        """Close the pipes: to the process this is the end of pgdyno."""
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


def ignore_stop_signals() -> None:
    """Ignore, in such a process, the signals by which pgdyno is stopped."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def lines_until_end(parent: int) -> Iterator[bytes]:
    """Yield the lines on standard input until pgdyno, the process ``parent``, has ended, even if a
    child of it keeps the pipe open.

    What pgdyno wrote before its end is read first; a line without its end is not yielded.
    """
    rest = b""
    while True:
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        if not readable:
            if os.getppid() != parent:
                return
            continue
        if not (chunk := os.read(0, 65536)):
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def say(text: str) -> None:
    """Answer pgdyno with a line."""
    os.write(1, f"{' '.join(text.split())}\n".encode())
