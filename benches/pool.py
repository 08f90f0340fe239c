"""``python -m benches.pool``: the search for a pool size against a brute-force sweep, in one run.

As ``benches.knee``: rounds of the sweep before and after the search, each in random order, then the
answer and the best size of the sweep in fresh interleaved pairs, which decide.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benches.knee import Swept, size_missed, sweep
from pgdyno.conduct import Silent, open_session
from pgdyno.errors import PgdynoError
from pgdyno.search._points import Aim
from pgdyno.search.pool import PoolRequest, find_pool, prepared_spec
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.spec.pooler import SIZE_SETTINGS

SIZES = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if the sweep found a better size, beyond noise."""
    given = _parser().parse_args(argv)
    try:
        missed = [_against_sweep(script, given) for script in given.scripts]
    except PgdynoError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 2
    return int(any(missed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benches.pool", description=__doc__)
    parser.add_argument("scripts", nargs="*", default=["tpcb-like", "select-only"])
    parser.add_argument("--pooler", default="none", choices=["none", *SIZE_SETTINGS])
    parser.add_argument("--clients", type=int, default=128)
    parser.add_argument("--budget", type=float, default=150, help="seconds of the search")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the sweep")
    parser.add_argument("--pairs", type=int, default=8, help="fresh pairs")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of a slice")
    parser.add_argument("--scale", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _against_sweep(script: str, given: argparse.Namespace) -> bool:
    """Return whether the sweep found a better size than the search."""
    rng, swept = random.Random(given.seed), Swept()
    spec, group = prepared_spec(_spec(script, given), group=None, choose_clients=False)
    aim = _aim(spec, group)
    with (
        tempfile.TemporaryDirectory() as directory,
        open_session(
            spec, run=Path(directory) / "bench.db", command="pool", spec_text="", watcher=Silent()
        ) as session,
    ):
        session.apply(aim.change(8))
        sweep(session, aim, SIZES, given.seconds, rng, swept)
        result = find_pool(session, PoolRequest(group, (), max(SIZES), given.budget))
        print(f"{script}, pooler {given.pooler}: {result.sentence}", flush=True)
        print(f"  beyond: {result.limit_beyond.sentence}", flush=True)
        if result.best is None:
            return True
        session.apply(aim.change(8))
        for _ in range(given.rounds - 1):
            sweep(session, aim, SIZES, given.seconds, rng, swept)
        missed = size_missed(session, aim, result.best.size, swept, given, rng)
        session.stop_load()
    return missed


def _spec(script: str, given: argparse.Namespace) -> Spec:
    fields = {
        "name": "pool",
        "workload": {"script": script, "scale": given.scale},
        "clients": [{"count": given.clients}],
        "pooler": {"kind": given.pooler},
    }
    return spec_from_fields(fields)


def _aim(spec: Spec, group: str) -> Aim:
    kind = spec.pooler.kind
    if kind == "none":
        return Aim("pool", group, Change())
    return Aim("pooler", group, Change(), setting=f"pooler.{SIZE_SETTINGS[kind]}")


if __name__ == "__main__":
    sys.exit(main())
