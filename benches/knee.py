"""``python -m benches.knee``: the search for the knee against a brute-force sweep, in one run.

Rounds of the sweep are measured before and after the search, each in random order. Then the answer
and the best point of the sweep are measured in fresh interleaved pairs, which decide: what was
chosen for its figure is not judged by that figure.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.errors import PgdynoError
from pgdyno.search._curve import merged_response
from pgdyno.search._points import Aim, PointSlice, measure_point
from pgdyno.search.knee import KneeRequest, find_capacity, prepared_spec
from pgdyno.search.slo import Limit, parse_limits
from pgdyno.spec import Change, spec_from_fields
from pgdyno.stats import paired_effect

CLIENTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
RATES = (*(1.05**step for step in range(-4, 9)), 2.0, 3.0)
"""Rates of the sweep, as factors of the answer: close to it, and above in case that it is quite
wrong."""
BETTER = 1.05
"""A point of the sweep that is better by more than this is one that the search missed."""

Swept = dict[float, list[PointSlice]]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if the sweep found a better point, beyond noise."""
    given = _parser().parse_args(argv)
    limits = parse_limits(given.slo) if given.slo else ()
    try:
        missed = [_against_sweep(script, limits, given) for script in given.scripts]
    except PgdynoError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 2
    return int(any(missed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benches.knee", description=__doc__)
    parser.add_argument("scripts", nargs="*", default=["select-only", "tpcb-like"])
    parser.add_argument("--slo", help="look for a rate, as pgdyno knee --slo")
    parser.add_argument("--budget", type=float, default=150, help="seconds of the search")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the sweep")
    parser.add_argument("--pairs", type=int, default=8, help="fresh pairs")
    parser.add_argument("--seconds", type=float, default=2.5, help="length of a slice")
    parser.add_argument("--scale", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _against_sweep(script: str, limits: tuple[Limit, ...], given: argparse.Namespace) -> bool:
    """Return whether the sweep found a better point than the search."""
    rng = random.Random(given.seed)
    with _session(script, limits, given) as (session, group):
        open_loop = bool(limits)
        aim = (
            Aim("rate", group, Change(), limits, max(CLIENTS))
            if open_loop
            else Aim("clients", group, Change())
        )
        swept: Swept = {}
        if not open_loop:
            session.apply(aim.change(8))
            sweep(session, aim, CLIENTS, given.seconds, rng, swept)
        request = KneeRequest(group, limits, max(CLIENTS), given.budget)
        capacity = find_capacity(session, request).capacity
        print(f"{script}: {capacity.sentence}", flush=True)
        if capacity.knee is None:
            return False
        answer = float(capacity.knee.rate_tps or capacity.knee.clients or 1)
        points = [round(answer * factor, 1) for factor in RATES] if open_loop else CLIENTS
        for _ in range(given.rounds - (not open_loop)):
            sweep(session, aim, points, given.seconds, rng, swept)
        judge = _rates_missed if open_loop else size_missed
        return judge(session, aim, answer, swept, given, rng)


@contextmanager
def _session(
    script: str, limits: tuple[Limit, ...], given: argparse.Namespace
) -> Iterator[tuple[Session, str]]:
    fields = {"name": "knee", "workload": {"script": script, "scale": given.scale}}
    spec, group = prepared_spec(
        spec_from_fields(fields), group=None, clients=max(CLIENTS), limits=limits
    )
    with (
        tempfile.TemporaryDirectory() as directory,
        open_session(
            spec, run=Path(directory) / "bench.db", command="knee", spec_text="", watcher=Silent()
        ) as session,
    ):
        yield session, group
        session.stop_load()


def sweep(
    session: Session, aim: Aim, points: Sequence[float], seconds: float, rng: random.Random,
    swept: Swept,
) -> None:  # fmt: skip
    """Measure each point once, in random order."""
    for point in rng.sample(list(points), len(points)):
        swept.setdefault(point, []).append(measure_point(session, aim, point, seconds))


def size_missed(
    session: Session, aim: Aim, answer: float, swept: Swept,
    given: argparse.Namespace, rng: random.Random,
) -> bool:  # fmt: skip
    """Return whether a size of the sweep is better than the answer, beyond noise."""
    means = {point: fmean(each.tps for each in slices) for point, slices in swept.items()}
    best = max(means, key=lambda point: means[point])
    print("  sweep", ", ".join(f"{point:g}: {means[point]:,.0f}" for point in sorted(means)))
    if best == answer:
        print("  the best point of the sweep is the answer")
        return False
    tps: dict[float, list[float]] = {answer: [], best: []}
    for _ in range(given.pairs):
        for point in rng.sample([answer, best], 2):
            tps[point].append(measure_point(session, aim, point, given.seconds).tps)
    effect = paired_effect(tps[answer], tps[best])
    print(
        f"  {best:g}, the best of the sweep, over {answer:g}: {effect.ratio:.3f}"
        f" [{effect.lo:.3f}, {effect.hi:.3f}] in {effect.pairs} fresh pairs"
    )
    return effect.lo > BETTER


def _rates_missed(
    session: Session, aim: Aim, answer: float, swept: Swept,
    given: argparse.Namespace, rng: random.Random,
) -> bool:  # fmt: skip
    met = {rate: sum(not each.why for each in slices) for rate, slices in swept.items()}
    print("  sweep", ", ".join(f"{r:g}: {met[r]}/{len(swept[r])}" for r in sorted(met)))
    best = max((rate for rate in met if met[rate] == len(swept[rate])), default=answer)
    if best <= BETTER * answer:
        print(f"  the highest rate that the sweep met each time, {best:g}/s, is no better")
        return False
    fresh: Swept = {answer: [], best: []}
    for _ in range(given.pairs):
        for rate in rng.sample([answer, best], 2):
            fresh[rate].append(measure_point(session, aim, rate, given.seconds))
    # A rate is one that lasts: a stall in one slice of many counts by its part of all transactions.
    together = {rate: merged_response(slices) for rate, slices in fresh.items()}
    for rate, response in together.items():
        within = sum(not each.why for each in fresh[rate])
        figures = ", ".join(
            f"{each.figure} {each.of(response) / 1e6:.1f} ms" for each in aim.limits
        )
        print(f"  {rate:g}/s in fresh slices: {within} of {given.pairs} met; together {figures}")
    return all(each.is_met(together[best]) for each in aim.limits)


if __name__ == "__main__":
    sys.exit(main())
