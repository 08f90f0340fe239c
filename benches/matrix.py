"""The matrix: all cases and contenders, interleaved in one run.

A round includes all cases. In a case each contender has one slice, in random order: two slices of
the same round and case are a pair. Cases with required figures are measured first, in all rounds;
the others in as many rounds as time permits, of which the last may be incomplete.
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
"""Maximum of ``-j clients``: more threads have never increased its speed on such a machine."""

LONG = 4
"""Factor on the length of slices with many clients: the CPU of connecting, which is subtracted,
should be small compared with the rest."""

Say = Callable[[str], None]


@dataclass
class Row:
    """All samples of one contender in one case, by round; None for a round without a slice."""

    case: Case
    contender: str
    samples: list[Sample | None] = field(default_factory=list)


@dataclass
class Matrix:
    """All measured rows."""

    rows: list[Row] = field(default_factory=list)

    def row(self, case: Case, contender: str) -> Row:
        """Return the row of a contender; add it if it is missing."""
        for row in self.rows:
            if (row.case, row.contender) == (case, contender):
                return row
        self.rows.append(Row(case, contender))
        return self.rows[-1]


def all_cases(
    scripts: Iterable[Script], clients: Iterable[int], transports: Iterable[Transport]
) -> list[Case]:
    """Return all combinations."""
    return [Case(s, c, t) for s in scripts for t in transports for c in clients]


def has_requirement(case: Case) -> bool:
    """True if figures are required in this case."""
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
    """Add samples of ``cases`` to ``matrix`` for ``rounds`` rounds, or until the monotonic time
    ``until_s`` if that is earlier, but at least for one round.

    ``before_case`` is called before each case. A contender that fails has no sample in that round.
    """
    rng = random.Random(1)
    for number in range(rounds):
        for case in cases:
            if number and time.monotonic() > until_s:
                say(f"time limit reached in round {number + 1}")
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
    """The contenders available on this machine; ``skipped`` has the others with the reason."""

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
        """Return the contenders of a case: all if figures are required, otherwise one bare loop,
        pgdyno's default, and the peers; with many clients no peer with a thread for each."""
        peers = self._peers(case)
        if has_requirement(case):
            return [*self._bare, self._pgdyno, *self._reactors, *peers]
        return [*self._bare[-1:], self._pgdyno, *peers]

    def _peers(self, case: Case) -> list[Contender]:
        """Return pgbench at -j 1, cores and clients, and sysbench."""
        few = has_requirement(case) or case.clients < MANY_CLIENTS
        threads = {1, CORES, *([PGBENCH_THREADS_MAX] if few else [])}
        wanted = sorted({min(number, case.clients) for number in threads})
        for number in wanted:
            self._pgbench.setdefault(number, Pgbench(self._server, number))
        return [*(self._pgbench[number] for number in wanted), *(self._sysbench if few else [])]

    def _working(self, contenders: Iterable[Contender]) -> list[Contender]:
        """Return the contenders that work here: io_uring may not be permitted."""
        found = []
        for contender in contenders:
            try:
                contender.measure(Case("select-only", 1, "unix"), 0.1)
            except BenchError as error:
                self.skipped[contender.name] = str(error)
            else:
                found.append(contender)
        return found
