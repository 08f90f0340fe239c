"""``python -m benches.metrics_cost``: cost of the metrics endpoint, in interleaved pairs.

Throughput of one load with the endpoint asked once a second by another process, as by a Prometheus
with the shortest usual interval, and without it; and the CPU time of pgdyno without that of its
load engine, in the same slices, which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import mean, stdev

from msgspec import Struct

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.live import open_endpoint
from pgdyno.record import SliceKind, throughput_tps
from pgdyno.spec import spec_from_fields
from pgdyno.spec.address import Address
from pgdyno.stats import PairedEffect, paired_effect

_ASK = (
    "import sys, time, urllib.request\n"
    "while True:\n"
    "    urllib.request.urlopen(sys.argv[1]).read()\n"
    "    time.sleep(1)\n"
)
WARM_UP_S = 0.5


class Cost(Struct, frozen=True):
    """Costs of the endpoint, each with its 95 % interval."""

    throughput: PairedEffect
    """With it over without it."""
    cpu_ms_per_s: tuple[float, float, float]
    """Lower bound, mean and upper bound of what is added."""


def metrics_cost(script: str, *, pairs: int, slice_s: float, clients: int) -> Cost:
    """Measure the cost of the endpoint in ``pairs`` of slices in random order."""
    spec = spec_from_fields(
        {
            "name": "metrics-cost",
            "workload": {"script": script},
            "clients": [{"count": clients}],
        }
    )
    rng = random.Random(1)
    tps: dict[str, list[float]] = {"off": [], "on": []}
    cpu: dict[str, list[float]] = {"off": [], "on": []}
    with (
        tempfile.TemporaryDirectory() as directory,
        open_endpoint(Address("127.0.0.1", 0)) as (endpoint, url),
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
                if side == "on":
                    endpoint.follow(session.recorder)
                with _asked(url) if side == "on" else nullcontext():
                    done_tps, cpu_ms = _slice(session, slice_s)
                tps[side].append(done_tps)
                cpu[side].append(cpu_ms)
                endpoint.leave()
        session.stop_load()
    added = [on - off for on, off in zip(cpu["on"], cpu["off"], strict=True)]
    margin = 2.1 * stdev(added) / math.sqrt(len(added))
    bounds = (mean(added) - margin, mean(added), mean(added) + margin)
    return Cost(paired_effect(tps["off"], tps["on"]), bounds)


def _slice(session: Session, slice_s: float) -> tuple[float, float]:
    """Return throughput, and milliseconds of CPU per second without the load engine's."""
    session.wait(WARM_UP_S)
    began_s = time.process_time()
    slice_id = session.slice(slice_s, kind=SliceKind.RUN)
    used_ms = 1000 * (time.process_time() - began_s)
    run = session.reader()
    engine = run.generator([slice_id])
    engine_ms = (engine.cpu_user_us + engine.cpu_system_us) / 1000
    return throughput_tps(run, [slice_id]), (used_ms - engine_ms) / slice_s


@contextmanager
def _asked(url: str) -> Iterator[None]:
    """Ask for the metrics once a second, from a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", _ASK, url])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.metrics_cost", description=__doc__)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a slice")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--script", default="mixed")
    given = parser.parse_args(argv)
    cost = metrics_cost(
        given.script, pairs=given.pairs, slice_s=given.seconds, clients=given.clients
    )
    effect, (lo, added, hi) = cost.throughput, cost.cpu_ms_per_s
    print(
        f"throughput with the endpoint / without, {given.script}, c={given.clients}:"
        f" {effect.ratio:.3f} [{effect.lo:.3f}, {effect.hi:.3f}], {given.pairs} pairs\n"
        f"CPU added: {added:.1f} ms per second [{lo:.1f}, {hi:.1f}]"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
