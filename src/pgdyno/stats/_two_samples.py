"""Comparisons of two samples: by ranks, and of a series while something happened with its level
otherwise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

from msgspec import Struct

from pgdyno._engine import student_t_quantile
from pgdyno.stats.changes import independent_share

EXACT_MAX = (8, 100)
"""Largest sizes of the smaller and the larger sample for which all orders are counted, if no value
occurs twice. Otherwise the normal approximation is close enough."""
CONTRAST_MIN = 4
"""Minimum number of values on each side."""


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


class Contrast(Struct, frozen=True):
    """Ratio of two levels, geometric means, with its 95 % interval."""

    ratio: float
    lo: float
    hi: float


def contrast(values: Sequence[float], during: Sequence[bool]) -> Contrast | None:
    """Return the level of the values marked ``during`` over that of the others; None if a side has
    fewer than ``CONTRAST_MIN`` positive values.

    Welch's interval of the difference of the logarithms' means (B. L. Welch, "The generalization of
    Student's problem when several different population variances are involved", Biometrika 34,
    1947). The seconds of a run depend on each other: of n values, as many count as independent as
    AR(1) noise with the residuals' dependence has. It is an association: what else happened at the
    same times is in it.
    """
    positive = [(math.log(v), bool(d)) for v, d in zip(values, during, strict=True) if v > 0]
    marks = sum(mark for _, mark in positive)
    if min(marks, len(positive) - marks) < CONTRAST_MIN:
        return None
    import numpy as np

    logs = np.array([value for value, _ in positive])
    marked = np.array([mark for _, mark in positive], dtype=bool)
    sides = [logs[marked], logs[~marked]]
    residuals = logs.copy()
    for mark, side in ((marked, sides[0]), (~marked, sides[1])):
        residuals[mark] -= side.mean()
    share = independent_share(residuals)
    difference = float(sides[0].mean() - sides[1].mean())
    counts = [max(2.0, share * len(side)) for side in sides]
    errors = [float(side.var(ddof=1)) / n for side, n in zip(sides, counts, strict=True)]
    total = sum(errors)
    if total == 0:
        return Contrast(math.exp(difference), math.exp(difference), math.exp(difference))
    freedom = total**2 / sum(e**2 / (n - 1) for e, n in zip(errors, counts, strict=True))
    half = student_t_quantile(max(1.0, freedom), 0.975) * math.sqrt(total)
    return Contrast(math.exp(difference), math.exp(difference - half), math.exp(difference + half))
