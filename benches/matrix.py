"""The matrix: every case, every contender, interleaved in one run.

A round goes through the cases; within a case each contender has one slice, in random order, so
that two of them in the same round and case are a pair. Cases for which figures are asked come
first, with all their rounds; the others have as many as there is time for, all the same number but
for the last.
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
from benches.sample import MANY_CLIENTS, BenchError, Case, Contender, Sample, Script, Transport
from benches.server import BenchServer
from benches.sysbench import Sysbench, find_sysbench

REACTORS = ("mio", "io_uring")
CORES = os.cpu_count() or 1
PGBENCH_THREADS_MAX = 64
"""``-j clients`` stops here: no more threads have ever helped it on a machine of this size."""

LONG = 4
"""Slices of that many clients are so much longer: connecting them costs CPU that has to be taken
away, and should be little beside what is measured."""

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


def is_asked(case: Case) -> bool:
    """Whether figures are asked for in this case."""
    return case.script == "select-only" and case.transport == "unix"


def run_matrix(
    matrix: Matrix,
    cases: Sequence[Case],
    contenders_of: Callable[[Case], Sequence[Contender]],
    *,
    rounds: int,
    seconds: float,
    until_s: float,
    before_case: Callable[[], None],
    say: Say,
) -> None:
    """Add samples of ``cases`` to ``matrix`` for ``rounds`` rounds or until the monotonic time
    ``until_s``, whichever is first; one round at least.

    ``before_case`` is called before each case. A contender that fails is out of its case's round.
    """
    rng = random.Random(1)
    for number in range(rounds):
        for case in cases:
            if number and time.monotonic() > until_s:
                say(f"the time is up in round {number + 1}")
                return
            before_case()
            contenders = list(contenders_of(case))
            rng.shuffle(contenders)
            length = seconds * (LONG if case.clients >= MANY_CLIENTS else 1)
            for contender in contenders:
                row = matrix.row(case, contender.name)
                row.samples += [None] * (number - len(row.samples))
                row.samples.append(_try(contender, case, length, say))


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
        program = bare_program(profile)
        self._bare = self._working(Bare(server, name, program) for name in BARE_REACTORS)
        self._pgdyno = Pgdyno(server, child, "pgdyno")
        self._reactors = self._working(
            Pgdyno(server, child, f"pgdyno {name}", {"reactor": name}) for name in REACTORS
        )
        self._pgbench: dict[int, Pgbench] = {}
        self._sysbench: list[Contender] = []
        if (program_path := find_sysbench()) is None:
            self.skipped["sysbench"] = "not installed"
        else:
            self._sysbench = [Sysbench(server, program_path)]

    def of(self, case: Case) -> list[Contender]:
        """Who takes part in a case: everyone where figures are asked for; elsewhere one bare loop
        and pgdyno as it comes, and with many clients no peer that has a thread for each."""
        peers = self._peers(case)
        if is_asked(case):
            return [*self._bare, self._pgdyno, *self._reactors, *peers]
        return [*self._bare[-1:], self._pgdyno, *peers]

    def _peers(self, case: Case) -> list[Contender]:
        """pgbench at -j 1, cores and clients, and sysbench."""
        few = is_asked(case) or case.clients < MANY_CLIENTS
        threads = {1, CORES, *([PGBENCH_THREADS_MAX] if few else [])}
        wanted = sorted({min(number, case.clients) for number in threads})
        for number in wanted:
            self._pgbench.setdefault(number, Pgbench(self._server, number))
        return [*(self._pgbench[number] for number in wanted), *(self._sysbench if few else [])]

    def _working(self, contenders: Iterable[Contender]) -> list[Contender]:
        """Those that run here: io_uring is not everywhere allowed."""
        found = []
        for contender in contenders:
            try:
                contender.measure(Case("select-only", 1, "unix"), 0.1)
            except BenchError as error:
                self.skipped[contender.name] = str(error)
            else:
                found.append(contender)
        return found
