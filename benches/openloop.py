"""Accuracy of open loops: pgdyno beside ``pgbench -R`` at the same rate, half of what is possible.

Lateness is from when a transaction is due to when it is sent. pgbench writes it down for every
transaction (``-l``: schedule_lag); its first half second is left out, as it connects then.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.engine import EngineChild, Pgdyno, config_for
from benches.pgbench import Pgbench
from benches.sample import BenchError, Case
from benches.server import BenchServer

_SHARE_OF_CAPACITY = 0.5
_LEFT_OUT_US = 500_000
_LAG_COLUMN = 6  # client, transaction, time, script, epoch s, epoch µs, schedule_lag

Say = Callable[[str], None]


@dataclass(frozen=True)
class OpenLoops:
    """What it takes to measure them."""

    server: BenchServer
    child: EngineChild
    threads: Sequence[int]
    """pgbench's -j."""

    def measure(
        self, cases: Sequence[Case], *, rounds: int, seconds: float, say: Say
    ) -> list[dict[str, Any]]:
        """A row for each case, contender and round."""
        rng = random.Random(2)
        rows = []
        for case in cases:
            capacity = Pgdyno(self.server, self.child, "pgdyno").measure(case, seconds)
            rate = round(_SHARE_OF_CAPACITY * capacity.throughput_tps)
            say(f"open loop: {case.script} c={case.clients} at {rate} per second")
            contenders = list(self._contenders())
            for _ in range(rounds):
                rng.shuffle(contenders)
                for name, late in contenders:
                    rows.append(_row(case, name, rate, late(case, rate, seconds)))
        return rows

    def _contenders(self) -> Iterator[tuple[str, Callable[..., dict[str, Any]]]]:
        yield "pgdyno", self._pgdyno
        for threads in self.threads:
            yield f"pgbench -j {threads}", Pgbenches(Pgbench(self.server, threads))

    def _pgdyno(self, case: Case, rate: int, seconds: float) -> dict[str, Any]:
        conninfo = self.server.conninfo(case.transport)
        group = {"arrival": {"rate": rate, "process": "poisson"}}
        config = config_for(conninfo, case, self.server.scale, group=group)
        said = self.child.ask("lateness", config, seconds=seconds)
        sent = {f"send_{key}": value for key, value in said["send"].items()}
        return {"done_per_s": said["done"] / said["seconds"], **said["wait"], **sent}


@dataclass(frozen=True)
class Pgbenches:
    """pgbench at a rate."""

    pgbench: Pgbench

    def __call__(self, case: Case, rate: int, seconds: float) -> dict[str, Any]:
        """Lateness in one run."""
        with tempfile.TemporaryDirectory() as folder:
            duration = str(max(1, round(seconds + _LEFT_OUT_US / 1e6)))
            prefix = f"{folder}/log"
            self.pgbench.run(case, "-R", str(rate), "-T", duration, "-l", "--log-prefix", prefix)
            logs = [file.read_text() for file in Path(folder).iterdir()]
            lines = "".join(logs).splitlines()
        return lateness_of_log(lines)


def lateness_of_log(lines: Sequence[str]) -> dict[str, Any]:
    """Quantiles of schedule_lag in pgbench's log. Raises BenchError when there is too little."""
    rows = [line.split() for line in lines]
    done = [(int(row[4]) * 1_000_000 + int(row[5]), int(row[_LAG_COLUMN])) for row in rows]
    if not done:
        raise BenchError("pgbench logged nothing")
    first_us = min(at_us for at_us, _ in done) + _LEFT_OUT_US
    lags = sorted(lag for at_us, lag in done if at_us >= first_us)
    if len(lags) < 2:
        raise BenchError("pgbench logged next to nothing; the slice is too short")
    seconds = (max(at_us for at_us, _ in done) - first_us) / 1e6
    return {
        "done_per_s": len(lags) / seconds,
        "us_p50": lags[len(lags) // 2],
        "us_p99": lags[len(lags) * 99 // 100],
        "us_max": lags[-1],
    }


def _row(case: Case, contender: str, rate: int, late: Mapping[str, Any]) -> dict[str, Any]:
    figures = {key: round(value, 2) for key, value in late.items()}
    return {**vars(case), "contender": contender, "rate": rate, **figures}
