"""Cost of the probes: throughput with all of them and with none, in interleaved pairs."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.record import throughput_tps
from pgdyno.spec import spec_from_fields
from pgdyno.stats import Effect, paired_effect

# Probes that were off connect again, and their first reading fills caches: this is not counted.
_WARM_UP_SECONDS_MAX = 2.0


def probe_cost(
    scripts: Iterable[str], *, pairs: int, slice_s: float, scale: int
) -> dict[str, Effect]:
    """Return script → ratio of throughput, probes on over probes off."""
    return {script: _measure(script, pairs, slice_s, scale) for script in scripts}


def _measure(script: str, pairs: int, slice_s: float, scale: int) -> Effect:
    spec = spec_from_fields(
        {
            "name": "probe-cost",
            "workload": {"script": script, "scale": scale},
            "clients": [{"count": 8}],
        }
    )
    rng = random.Random(1)
    tps: dict[str, list[float]] = {"off": [], "on": []}
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
        session.stop_load()
    return paired_effect(tps["off"], tps["on"])


def _slice(session: Session, slice_s: float, *, probes: bool) -> float:
    with ExitStack() as stack:
        if not probes:
            stack.enter_context(session.probes.rest())
        session.wait(min(_WARM_UP_SECONDS_MAX, 2 * slice_s))
        slice_id = session.slice(slice_s, kind="run")
    return throughput_tps(session.reader(), [slice_id])
