"""Level of a series while something happened against its level otherwise, within one run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from pgdyno._engine import student_t_quantile
from pgdyno.stats.changes import independent_share

CONTRAST_MIN = 4
"""Minimum number of values on each side."""


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
