"""Levels of several points that were measured in rounds: their means, without the rounds' drift.

A round measures some points once each, in random order. The logarithm of a figure is taken as the
sum of a part of its point and a part of its round (a two-way layout with missing cells), so that a
machine that is slower for a while moves a round and not the points that happened to be in it. The
errors are taken to be alike at all points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from pgdyno._engine import student_t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SD_ASSUMED = 0.05
"""Deviation of a slice, as a share, that counts like ``FREEDOM_ASSUMED`` repeats that showed it:
few repeats may agree by chance."""
FREEDOM_ASSUMED = 2
FREEDOM_MIN = 2
"""Repeats beyond the first ones below which there is no interval."""


class Sample(NamedTuple):
    """A positive figure that was measured at a point in a round."""

    point: int
    round: int
    value: float


class PointLevels(Struct, frozen=True):
    """The levels of points, in ascending order of the points."""

    points: tuple[int, ...]
    repeats: tuple[int, ...]
    """Number of figures of each point."""
    logs: NDArray[np.float64]
    """Logarithm of each level, in the average round."""
    shape: NDArray[np.float64]
    """Covariance of ``logs`` for errors with a deviation of 1."""
    sd_measured: float
    """Deviation of a figure's logarithm from the sum of both parts; NaN without repeats."""
    freedom: int
    """Number of figures beyond those that the parts need."""

    @property
    def sd(self) -> float:
        """Deviation to decide with: the measured one, and what is assumed of few repeats."""
        measured = 0.0 if not self.freedom else self.freedom * self.sd_measured**2
        assumed = FREEDOM_ASSUMED * SD_ASSUMED**2
        return math.sqrt((measured + assumed) / (self.freedom + FREEDOM_ASSUMED))

    def value(self, place: int) -> float:
        """Return the level of the point at ``place``."""
        return math.exp(self.logs[place])

    def error_of_difference(self, a: int, b: int) -> float:
        """Return the standard error of the difference of two logarithms, by places."""
        variance = self.shape[a, a] + self.shape[b, b] - 2 * self.shape[a, b]
        return self.sd * math.sqrt(max(float(variance), 0.0))

    def half_width(self, place: int) -> float:
        """Return half the width of the 95 % interval of a logarithm, to decide with."""
        quantile = student_t_quantile(self.freedom + FREEDOM_ASSUMED, 0.975)
        return quantile * self.sd * math.sqrt(float(self.shape[place, place]))

    def interval(self, place: int) -> tuple[float, float] | None:
        """Return the 95 % interval of a level, by what was measured alone; None with too few
        repeats."""
        if self.freedom < FREEDOM_MIN:
            return None
        error = self.sd_measured * math.sqrt(float(self.shape[place, place]))
        half = student_t_quantile(self.freedom, 0.975) * error
        return math.exp(self.logs[place] - half), math.exp(self.logs[place] + half)

    def draws(self, count: int, seed: int) -> NDArray[np.float64]:
        """Return ``count`` rows of logarithms that would be as likely, for intervals of what is
        derived from the levels (a parametric bootstrap: B. Efron, R. J. Tibshirani, "An
        introduction to the bootstrap", Chapman & Hall 1993, chapter 6)."""
        import numpy as np

        rng = np.random.default_rng(seed)
        covariance = self.shape * self.sd**2
        drawn: NDArray[np.float64] = rng.multivariate_normal(
            self.logs, covariance, size=count, method="eigh"
        )
        return drawn


def levels(samples: Sequence[Sample]) -> PointLevels:
    """Return the levels of all points in ``samples`` by least squares. ValueError without samples,
    or for a value that is not positive and finite."""
    import numpy as np

    if not samples or not all(0 < each.value < math.inf for each in samples):
        raise ValueError("levels need positive, finite values")
    points = sorted({each.point for each in samples})
    rounds = sorted({each.round for each in samples})
    design = np.zeros((len(samples), len(points) + len(rounds)))
    for row, each in enumerate(samples):
        design[row, points.index(each.point)] = 1
        design[row, len(points) + rounds.index(each.round)] = 1
    logs = np.log([each.value for each in samples])
    inverse = np.linalg.pinv(design.T @ design)
    parts = inverse @ design.T @ logs
    # What a point would have had in the average round: this can be estimated, a part alone not.
    weights = design[:, len(points) :].mean(axis=0)
    wanted = np.hstack([np.eye(len(points)), np.tile(weights, (len(points), 1))])
    freedom = len(samples) - int(np.linalg.matrix_rank(design))
    misfit = float(np.sum((logs - design @ parts) ** 2))
    return PointLevels(
        points=tuple(points),
        repeats=tuple(sum(each.point == point for each in samples) for point in points),
        logs=wanted @ parts,
        shape=wanted @ inverse @ wanted.T,
        sd_measured=math.sqrt(misfit / freedom) if freedom else math.nan,
        freedom=freedom,
    )
