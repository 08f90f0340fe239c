"""Cost of the probes: throughput with all of them and with none, in interleaved pairs, and the part
of the machine's CPU time that their threads and their sessions use under the same load.

The first is what matters, and differs from one slice to the next by far more than a hundredth. The
second has no such noise: where the cores are the limit, throughput cannot fall by more.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from benches.matrix import CORES
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.probe._link import APPLICATION_NAME
from pgdyno.record import SliceKind, throughput_tps
from pgdyno.server import connect_plain
from pgdyno.spec import spec_from_fields
from pgdyno.stats import PairedEffect, mean_bounds, paired_effect

# Probes that were off connect again, and their first reading fills caches: this is not counted.
_WARM_UP_SECONDS_MAX = 2.0
_CPU_SECONDS = 2.0
"""Two periods of the probes that read once a second."""
_THREADS = "pgdyno-"
"""Prefix of the names of threads that read and record."""


class ProbeCost(Struct, frozen=True):
    """Cost of all probes."""

    throughput: PairedEffect
    """Throughput with probes over that without."""
    cpu_share: tuple[float, float, float]
    """Part of the CPU time of all cores: lower bound, mean and upper bound (95 %)."""


def probe_cost(
    scripts: Iterable[str], *, pairs: int, slice_s: float, scale: int
) -> dict[str, ProbeCost]:
    """Return the cost by script."""
    return {script: _measure(script, pairs, slice_s, scale) for script in scripts}


def _measure(script: str, pairs: int, slice_s: float, scale: int) -> ProbeCost:
    spec = spec_from_fields(
        {
            "name": "probe-cost",
            "workload": {"script": script, "scale": scale},
            "clients": [{"count": 8}],
        }
    )
    rng = random.Random(1)
    tps: dict[str, list[float]] = {"off": [], "on": []}
    shares = []
    with (
        tempfile.TemporaryDirectory() as directory,
        open_session(
            spec,
            run=Path(directory) / "bench.db",
            command="run",
            spec_text="",
            watcher=Silent(),
        ) as session,
    ):
        session.start_load()
        session.wait(2 * slice_s)
        for _ in range(pairs):
            for side in rng.sample(["off", "on"], 2):
                tps[side].append(_slice(session, slice_s, probes=side == "on"))
            session.wait(_WARM_UP_SECONDS_MAX)
            shares.append(_cpu_share(session))
        session.stop_load()
    lo, hi = mean_bounds(shares)
    return ProbeCost(paired_effect(tps["off"], tps["on"]), (lo, statistics.mean(shares), hi))


def _slice(session: Session, slice_s: float, *, probes: bool) -> float:
    with ExitStack() as stack:
        if not probes:
            stack.enter_context(session.probes.rest())
        session.wait(min(_WARM_UP_SECONDS_MAX, 2 * slice_s))
        slice_id = session.slice(slice_s, kind=SliceKind.RUN)
    return throughput_tps(session.reader(), [slice_id])


def _cpu_share(session: Session) -> float:
    """Return the part of all cores' time that the probes' threads and sessions use."""
    with contextlib.closing(connect_plain(session.target.conninfo)) as connection:
        sessions = connection.execute(
            "select pid from pg_stat_activity where application_name = %s", [APPLICATION_NAME]
        ).fetchall()
    threads = [each.native_id for each in threading.enumerate() if each.name.startswith(_THREADS)]
    tasks = [Path(f"/proc/self/task/{each}") for each in threads]
    tasks += [Path(f"/proc/{pid}") for (pid,) in sessions]
    began_s, used_s = time.monotonic(), sum(map(_cpu_s, tasks))
    session.wait(_CPU_SECONDS)
    return (sum(map(_cpu_s, tasks)) - used_s) / (time.monotonic() - began_s) / CORES


def _cpu_s(task: Path) -> float:
    return int((task / "schedstat").read_text().split()[0]) / 1e9
