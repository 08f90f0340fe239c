"""Accuracy of open loops: pgdyno and ``pgbench -R`` at the same rate, half of the capacity.

Lateness is the time from when a transaction is due until it is sent. pgbench logs it for each
transaction (``-l``: schedule_lag); its first half second, in which it connects, is omitted.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from benches.engine import EngineChild, Pgdyno, config_for
from benches.pgbench import Pgbench
from benches.sample import BenchError, Case
from benches.server import BenchServer

_SHARE_OF_CAPACITY = 0.5
_LEFT_OUT_US = 500_000
_LAG_COLUMN = 6  # client, transaction, time, script, epoch s, epoch µs, schedule_lag

Say = Callable[[str], None]


class OpenLoops(Struct, frozen=True):
    """Measurement of open loops."""

    server: BenchServer
    child: EngineChild
    threads: Sequence[int]
    """Values of -j for pgbench."""

    def measure(
        self, cases: Sequence[Case], *, rounds: int, seconds: float, say: Say
    ) -> list[dict[str, Any]]:
        """Return a row for each case, contender and round."""
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
        measured = self.child.ask("lateness", config, seconds=seconds)
        sent = {f"send_{key}": value for key, value in measured["send"].items()}
        done_per_s = measured["done"] / measured["seconds"]
        return {"done_per_s": done_per_s, **measured["wait"], **sent}


class Pgbenches(Struct, frozen=True):
    """pgbench with a rate."""

    pgbench: Pgbench

    def __call__(self, case: Case, rate: int, seconds: float) -> dict[str, Any]:
        """Return the lateness in one run."""
        with tempfile.TemporaryDirectory() as directory:
            duration = str(max(1, round(seconds + _LEFT_OUT_US / 1e6)))
            prefix = f"{directory}/log"
            self.pgbench.run(case, "-R", str(rate), "-T", duration, "-l", "--log-prefix", prefix)
            logs = [file.read_text() for file in Path(directory).iterdir()]
            lines = "".join(logs).splitlines()
        return lateness_of_log(lines)


def lateness_of_log(lines: Sequence[str]) -> dict[str, Any]:
    """Return quantiles of schedule_lag in pgbench's log. Raises BenchError if it is too short."""
    rows = [line.split() for line in lines]
    done = [(int(row[4]) * 1_000_000 + int(row[5]), int(row[_LAG_COLUMN])) for row in rows]
    if not done:
        raise BenchError("pgbench logged nothing")
    first_us = min(at_us for at_us, _ in done) + _LEFT_OUT_US
    lags = sorted(lag for at_us, lag in done if at_us >= first_us)
    if len(lags) < 2:
        raise BenchError("pgbench logged fewer than two transactions; the slice is too short")
    seconds = (max(at_us for at_us, _ in done) - first_us) / 1e6
    return {
        "done_per_s": len(lags) / seconds,
        "us_p50": lags[len(lags) // 2],
        "us_p99": lags[len(lags) * 99 // 100],
        "us_max": lags[-1],
    }


def _row(case: Case, contender: str, rate: int, late: Mapping[str, Any]) -> dict[str, Any]:
    figures = {key: round(value, 2) for key, value in late.items()}
    return {**asdict(case), "contender": contender, "rate": rate, **figures}
