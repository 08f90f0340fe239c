"""Cost of whole processes: ``pgdyno run`` and pgbench from their start to their end.

Both load the same running server for as long, with prepared statements. Nothing is subtracted:
pgdyno's start-up, its probes, its run file and its diagnosis count, as pgbench's start-up does. The
same runs tell what of it the load engine alone used.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from benches.compare import ENGINE, PGDYNO
from benches.matrix import CORES, Matrix, Say
from benches.pgbench import Pgbench
from benches.processes import Ended, run_to_end
from benches.sample import BenchError, Case, Sample
from benches.server import BenchServer

CLIENTS = (8, 64, 256, 1000)
_TIMEOUT_BESIDE_S = 120


class Shortest(Struct, frozen=True):
    """A run of one transaction, which is start and end alone: the medians of several."""

    contender: str
    seconds: float
    cpu_s: float


class WholePgdyno(Struct, frozen=True):
    """``pgdyno run`` as a process of its own."""

    server: BenchServer
    name: str = PGDYNO

    def measure(self, case: Case, seconds: int) -> dict[str, Sample]:
        """Run it once; return the samples of the whole process and of its engine, by contender."""
        ended = self.run(case, "-T", str(seconds), timeout_s=seconds + _TIMEOUT_BESIDE_S)
        result = json.loads(ended.stdout)
        done, tps = result["ledger"]["done"], result["throughput_tps"]
        engine_s = result["generator"]["cpu_us_per_transaction"] * done / 1e6
        return {
            PGDYNO: Sample(done, done / tps, ended.cpu_user_s, ended.cpu_system_s),
            ENGINE: Sample(done, done / tps, engine_s, 0.0),
        }

    def run(self, case: Case, *options: str, timeout_s: float = _TIMEOUT_BESIDE_S) -> Ended:
        """Run it with further options."""
        conninfo = self.server.conninfo(case.transport)
        with tempfile.TemporaryDirectory() as directory:
            argv = [
                *(sys.executable, "-m", "pgdyno", "run", case.script, "-q", "--format", "json"),
                *("-h", conninfo.host, "-p", str(conninfo.port), "-U", conninfo.user),
                *("-d", conninfo.database, "-M", "prepared", "-s", str(self.server.scale)),
                *("-c", str(case.clients), *options),
                *("--max-other-programs", "1", "-o", str(Path(directory) / "run.db")),
            ]
            return run_to_end(argv, timeout_s=timeout_s)


class WholePgbench(Struct, frozen=True):
    """pgbench, of which nothing is subtracted."""

    pgbench: Pgbench

    @property
    def name(self) -> str:
        """Name in the results."""
        return self.pgbench.name

    def measure(self, case: Case, seconds: int) -> dict[str, Sample]:
        """Run it once; return its sample by contender."""
        run = self.pgbench.run(case, "-T", str(seconds), timeout_s=seconds + _TIMEOUT_BESIDE_S)
        return {self.name: run.sample}

    def run(self, case: Case, *options: str) -> Ended:
        """Run it with further options."""
        return run_to_end(self.pgbench.command(case, *options), timeout_s=_TIMEOUT_BESIDE_S)


Contender = WholePgdyno | WholePgbench


def whole_processes(
    server: BenchServer, clients: Iterable[int], *, rounds: int, seconds: int, say: Say
) -> Matrix:
    """Return the samples of select-only on the Unix socket, in rounds, each in random order."""
    rng = random.Random(1)
    matrix = Matrix()
    contenders: list[Contender] = [WholePgdyno(server)]
    contenders += [WholePgbench(Pgbench(server, each)) for each in sorted({1, CORES})]
    for number in range(rounds):
        for case in (Case("select-only", count, "unix") for count in clients):
            for contender in rng.sample(contenders, len(contenders)):
                for name, sample in _try(contender, case, seconds, say).items():
                    row = matrix.row(case, name)
                    row.samples += [None] * (number - len(row.samples))
                    row.samples.append(sample)
    return matrix


def shortest_runs(server: BenchServer, *, runs: int) -> list[Shortest]:
    """Return what one transaction of one client costs with each contender, run in turn."""
    contenders: list[Contender] = [WholePgdyno(server), WholePgbench(Pgbench(server, 1))]
    case = Case("select-only", 1, "unix")
    ended: dict[str, list[Ended]] = {}
    for _ in range(runs):
        for contender in contenders:
            ended.setdefault(contender.name, []).append(contender.run(case, "-t", "1"))
    return [
        Shortest(
            name,
            statistics.median(each.seconds for each in runs_of),
            statistics.median(each.cpu_user_s + each.cpu_system_s for each in runs_of),
        )
        for name, runs_of in ended.items()
    ]


def _try(contender: Contender, case: Case, seconds: int, say: Say) -> dict[str, Sample]:
    try:
        samples = contender.measure(case, seconds)
    except BenchError as error:
        say(f"c={case.clients:<5} failed: {error}")
        return {}
    for name, sample in samples.items():
        say(
            f"c={case.clients:<5} {name:<16} {sample.throughput_tps:>9.0f} tps"
            f" {sample.cpu_us:>7.2f} µs"
        )
    return samples
