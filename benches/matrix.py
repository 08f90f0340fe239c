"""The matrix: every case, every contender, interleaved in one run.

A round goes through all cases; within a case each contender has one slice, in random order, so
that two of them in the same round and case are a pair. When the time is up, all cases have had the
same number of rounds, but for the last.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from benches.engine import EngineChild, Pgdyno
from benches.floor import REACTORS as BARE_REACTORS
from benches.floor import Bare, Profile, bare_program
from benches.pgbench import Pgbench
from benches.sample import BenchError, Case, Contender, Sample, Script, Transport
from benches.server import BenchServer
from benches.sysbench import Sysbench, find_sysbench

REACTORS = ("mio", "io_uring")
CORES = os.cpu_count() or 1
PGBENCH_THREADS_MAX = 64
"""``-j clients`` stops here: no more threads have ever helped it on a machine of this size."""

Say = Callable[[str], None]


@dataclass
class Row:
    """All samples of one contender in one case, by round; None where it had no slice."""

    case: Case
    contender: str
    samples: list[Sample | None] = field(default_factory=list)


@dataclass
class Matrix:
    """What was measured."""

    rows: list[Row] = field(default_factory=list)

    def row(self, case: Case, contender: str) -> Row:
        """The row of a contender, made when it is missing."""
        for row in self.rows:
            if (row.case, row.contender) == (case, contender):
                return row
        self.rows.append(Row(case, contender))
        return self.rows[-1]


def all_cases(
    scripts: Iterable[Script], clients: Iterable[int], transports: Iterable[Transport]
) -> list[Case]:
    """Every combination."""
    return [Case(s, c, t) for s in scripts for t in transports for c in clients]


def run_matrix(
    field_of: Callable[[Case], Sequence[Contender]],
    cases: Sequence[Case],
    *,
    rounds: int,
    seconds: float,
    until_s: float,
    between: Callable[[], None],
    say: Say,
) -> Matrix:
    """Measure ``cases`` with the contenders that ``field_of`` gives each, for ``rounds`` rounds or
    until the monotonic time ``until_s``, whichever is first; one round at least.

    ``between`` is called before each case. A contender that fails is out of that case's round.
    """
    rng = random.Random(1)
    matrix = Matrix()
    for number in range(rounds):
        for case in cases:
            if number and time.monotonic() > until_s:
                say(f"the time is up in round {number + 1}")
                return matrix
            between()
            contenders = list(field_of(case))
            rng.shuffle(contenders)
            for contender in contenders:
                row = matrix.row(case, contender.name)
                row.samples += [None] * (number - len(row.samples))
                row.samples.append(_try(contender, case, seconds, say))
    return matrix


def _try(contender: Contender, case: Case, seconds: float, say: Say) -> Sample | None:
    where = f"{case.script:<14} c={case.clients:<5} {case.transport:<5} {contender.name:<16}"
    try:
        sample = contender.measure(case, seconds)
    except BenchError as error:
        say(f"{where} failed: {error}")
        return None
    say(f"{where} {sample.throughput_tps:>9.0f} tps {sample.cpu_us:>7.2f} µs")
    return sample


class Field:
    """The contenders that this machine has; ``skipped`` says who is missing, and why."""

    def __init__(self, server: BenchServer, child: EngineChild, *, profile: Profile) -> None:
        self.skipped: dict[str, str] = {}
        self._server = server
        self._child = child
        program = bare_program(profile)
        self._bare = {reactor: Bare(server, reactor, program) for reactor in BARE_REACTORS}
        self._pgdyno = Pgdyno(server, child, "pgdyno")
        self._reactors = [one for name in REACTORS if (one := self._on_reactor(name))]
        self._pgbench: dict[int, Pgbench] = {}
        self._sysbench: list[Contender] = []
        if (program_path := find_sysbench()) is None:
            self.skipped["sysbench"] = "not installed"
        else:
            self._sysbench = [Sysbench(server, program_path)]

    def of(self, case: Case) -> list[Contender]:
        """Who takes part in a case: everyone where figures are asked for, elsewhere the best bare
        loop and pgdyno as it comes. pgbench runs at -j 1, cores and clients."""
        wanted = {min(number, case.clients) for number in (1, CORES, PGBENCH_THREADS_MAX)}
        peers = [*map(self._pgbench_at, sorted(wanted)), *self._sysbench]
        if case.script == "select-only" and case.transport == "unix":
            return [*self._bare.values(), self._pgdyno, *self._reactors, *peers]
        return [self._bare["io_uring"], self._pgdyno, *peers]

    def _pgbench_at(self, threads: int) -> Pgbench:
        return self._pgbench.setdefault(threads, Pgbench(self._server, threads))

    def _on_reactor(self, reactor: str) -> Pgdyno | None:
        """pgdyno on the reactor, where the engine has it and the kernel allows it."""
        contender = Pgdyno(self._server, self._child, f"pgdyno {reactor}", {"reactor": reactor})
        try:
            contender.measure(Case("select-only", 1, "unix"), 0.1)
        except BenchError as error:
            self.skipped[contender.name] = str(error)
            return None
        return contender
