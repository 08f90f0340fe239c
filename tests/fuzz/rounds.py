"""Rounds of a fuzzing program: as many as fit into a time, each repeatable by its seed."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import io
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from msgspec import Struct

from pgdyno.cli import _status

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS / "unit")]  # run files that are made up

from remains import heed_stop_signals  # noqa: E402

STATUSES = {0, 1, 2, 3, 4, 129, 130, 143}
Round = Callable[[random.Random], str | None]
"""One round: what is wrong, or None."""
_scratch: list[Path] = []


class Said(Struct, frozen=True):
    """What a command said, and how it ended."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str | None:
        """What no command may do, whatever it was given."""
        if self.status not in STATUSES:
            return f"exit status {self.status}\n{self.err}"
        for word in ("internal error", "Traceback"):
            if word in self.err or word in self.out:
                return f"{word}\n{self.err}"
        messages = sum(line.startswith("error: ") for line in self.err.splitlines())
        if messages != (self.status != 0):
            return f"exit status {self.status} with {messages} messages\n{self.err}"
        return None


def pgdyno(*arguments: str) -> Said:
    """A command, carried out in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch("sys.argv", ["pgdyno", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = _status()
    return Said(status, out.getvalue(), err.getvalue())


def scratch() -> Path:
    """A directory for this program, which stays if it finds something."""
    _scratch.append(Path(tempfile.mkdtemp(prefix="pgdyno-fuzz-")))
    return _scratch[-1]


def play(name: str, one: Round) -> None:
    """Play rounds for --seconds, or the one of --round; a complaint ends the program with 1."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1 << 32)))
    parser.add_argument("--round", type=int)
    given = parser.parse_args()
    heed_stop_signals()
    ends_s, number = time.monotonic() + given.seconds, given.round or 0
    while time.monotonic() < ends_s:
        complaint = one(random.Random(f"{given.seed}:{number}"))
        if complaint is not None:
            program = Path(sys.argv[0])
            print(f"{complaint}\nagain: python {program} --seed {given.seed} --round {number}")
            sys.exit(1)
        number += 1
        if given.round is not None:
            break
    for each in _scratch:  # Not yet: a server may have its files there.
        atexit.register(shutil.rmtree, each, ignore_errors=True)
    print(f"{name}: {number - (given.round or 0)} rounds with seed {given.seed}, nothing found")
