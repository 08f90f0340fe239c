"""``python -m benches.statements_cost``: cost of ``--statements``, in interleaved pairs.

Throughput of one load on two servers of the same kind, one of which loads pg_stat_statements and is
read once a second; the other has neither. Only one is under load at a time. With ``--same`` neither
has it: that pair shows what the two servers differ in by themselves.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.record import SliceKind, throughput_tps
from pgdyno.spec import spec_from_fields
from pgdyno.stats import PairedEffect, paired_effect

WARM_UP_S = 1.0
SIDES = ("off", "on")


def statements_cost(
    script: str,
    *,
    pairs: int,
    slice_s: float,
    clients: int,
    version: int | None = None,
    same: bool = False,
) -> PairedEffect:
    """Return the ratio of throughput, with the statements over without, in ``pairs`` of slices in
    random order."""
    fields: dict[str, Any] = {
        "name": "statements-cost",
        "workload": {"script": script, "scale": 10},
        "clients": [{"count": clients}],
    }
    rng = random.Random(1)
    tps: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        sessions = {}
        for side in SIDES:
            server = {"statements": side == "on" and not same, "version": version}
            spec = spec_from_fields({**fields, "server": server})
            run = Path(directory) / f"{side}.db"
            sessions[side] = stack.enter_context(
                open_session(spec, run=run, command="run", spec_text="", watcher=Silent())
            )
        for side in SIDES:
            _slice(sessions[side], slice_s)
        for _ in range(pairs):
            for side in rng.sample(SIDES, 2):
                tps[side].append(_slice(sessions[side], slice_s))
    return paired_effect(tps["off"], tps["on"])


def _slice(session: Session, slice_s: float) -> float:
    session.start_load()
    session.wait(WARM_UP_S)
    slice_id = session.slice(slice_s, kind=SliceKind.RUN)
    session.stop_load()
    return throughput_tps(session.reader(), [slice_id])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benches.statements_cost", description=__doc__)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a slice")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--script", default="select-only")
    parser.add_argument("--pg-version", type=int)
    parser.add_argument("--same", action="store_true", help="neither server has the extension")
    given = parser.parse_args(argv)
    effect = statements_cost(
        given.script,
        pairs=given.pairs,
        slice_s=given.seconds,
        clients=given.clients,
        version=given.pg_version,
        same=given.same,
    )
    what = "neither server has it" if given.same else "with pg_stat_statements / without"
    print(
        f"throughput {what}, {given.script}, c={given.clients}: {effect.ratio:.3f}"
        f" [{effect.lo:.3f}, {effect.hi:.3f}], {given.pairs} pairs"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
