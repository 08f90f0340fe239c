"""Ratios between contenders, paired by round and case."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from benches.matrix import Matrix
from benches.sample import Case, Sample
from pgdyno.stats import PairedEffect, paired_effect

Metric = Literal["cpu", "throughput"]
PGDYNO = "pgdyno"
ENGINE = "pgdyno engine"
"""Of a whole process of pgdyno, the part that its load engine used."""
_VALUE: dict[Metric, Callable[[Sample], float]] = {
    "cpu": lambda sample: sample.cpu_us,
    "throughput": lambda sample: sample.throughput_tps,
}


class Ratio(Struct, frozen=True):
    """Ratio of pgdyno to a peer in one case; ``effect`` is None with fewer than two pairs."""

    case: Case
    metric: Metric
    peer: str
    effect: PairedEffect | None


def typical(matrix: Matrix, case: Case, contender: str, metric: Metric) -> float | None:
    """Return the geometric mean of a contender's slices."""
    samples = [sample for sample in _samples(matrix, case, contender) if sample]
    if not samples:
        return None
    return math.exp(math.fsum(math.log(_VALUE[metric](s)) for s in samples) / len(samples))


def best(matrix: Matrix, case: Case, family: str, metric: Metric) -> str | None:
    """Return the best contender of a family (``pgbench``: all -j), by the geometric mean."""
    found = {
        row.contender: value
        for row in matrix.rows
        if row.case == case
        and row.contender.split(" ")[0] == family
        and (value := typical(matrix, case, row.contender, metric)) is not None
    }
    choose = min if metric == "cpu" else max
    return choose(found, key=lambda name: found[name]) if found else None


def ratio(matrix: Matrix, case: Case, metric: Metric, peer: str, over: str = PGDYNO) -> Ratio:
    """Return ``over`` / ``peer`` of the rounds with slices of both."""
    pairs = [
        (_VALUE[metric](theirs), _VALUE[metric](ours))
        for theirs, ours in zip(
            _samples(matrix, case, peer), _samples(matrix, case, over), strict=False
        )
        if theirs and ours
    ]
    effect = paired_effect(*zip(*pairs, strict=True)) if len(pairs) > 1 else None
    return Ratio(case, metric, peer, effect)


def cases_of(matrix: Matrix) -> list[Case]:
    """Return the cases in the order in which they were measured."""
    return list(dict.fromkeys(row.case for row in matrix.rows))


def _samples(matrix: Matrix, case: Case, contender: str) -> Iterable[Sample | None]:
    for row in matrix.rows:
        if (row.case, row.contender) == (case, contender):
            return row.samples
    return []
