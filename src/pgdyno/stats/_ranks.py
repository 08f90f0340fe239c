"""Mann and Whitney's rank test: whether one of two small samples tends to be larger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

EXACT_MAX = (8, 100)
"""Largest sizes of the smaller and the larger sample for which all orders are counted, if no value
occurs twice. Otherwise the normal approximation is close enough."""


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p-value of both samples having one distribution (H. B. Mann and D. R.
    Whitney, "On a test of whether one of two random variables is stochastically larger than the
    other", Annals of Mathematical Statistics 18, 1947). 1 where all values are the same.

    ValueError for an empty sample.
    """
    if not a or not b:
        raise ValueError("a rank test needs values on both sides")
    larger = sum((x > y) + (x == y) / 2 for x in a for y in b)
    farther = max(larger, len(a) * len(b) - larger)
    ties = Counter([*a, *b])
    few, many = sorted((len(a), len(b)))
    if len(ties) == few + many and few <= EXACT_MAX[0] and many <= EXACT_MAX[1]:
        p = _exact(math.ceil(farther), few, many)
    else:
        p = _normal(farther, few, many, ties)
    return min(1.0, 2 * p)


def _exact(farther: int, few: int, many: int) -> float:
    """Return the share of all orders of both samples with at least ``farther`` pairs in which the
    first is larger."""
    ways = _ways(few, many)
    return sum(ways[farther:]) / sum(ways)


@cache
def _ways(few: int, many: int) -> tuple[int, ...]:
    """Return the number of orders by the number of pairs in which the first is larger.

    Without the largest value the problem has one value less: the value was larger than all ``many``
    others, or than none of the ``few``.
    """
    if few == 0 or many == 0:
        return (1,)
    counts = [0] * (few * many + 1)
    for start, part in ((many, _ways(few - 1, many)), (0, _ways(few, many - 1))):
        for pairs, ways in enumerate(part):
            counts[start + pairs] += ways
    return tuple(counts)


def _normal(farther: float, few: int, many: int, ties: Counter[float]) -> float:
    """Return the normal approximation, corrected for ties and for continuity."""
    size = few + many
    tied = sum(count**3 - count for count in ties.values()) / (size * (size - 1))
    deviation = math.sqrt(few * many / 12 * (size + 1 - tied))
    if deviation == 0:
        return 1.0
    return 1 - NormalDist().cdf((farther - few * many / 2 - 0.5) / deviation)
