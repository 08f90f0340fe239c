"""Growth of throughput with clients, and its limit: the Universal Scalability Law."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno._engine import student_t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POINTS_MIN = 4
"""A fit of three parameters needs at least four different numbers of clients."""

ERROR_MAX = 0.25
"""Largest average relative error of a useful fit."""

GRID = 40
REFINEMENTS = 4
"""Number of laws with one knee that are compared, and how often they are chosen more closely."""
KNEE_MAX = 1e7
KNEE_PRECISION = 1e-4
"""The knee above which there is none, and the precision of the ends of its interval."""
MISFIT_MIN = 1e-12


class ScalabilityLaw(Struct, frozen=True):
    """A fitted Universal Scalability Law, with its knee and its peak."""

    single_tps: float
    """λ: throughput of one client alone."""
    contention: float
    """σ: the share of work that is serialized."""
    coherence: float
    """κ: the cost of each pair of clients to each other."""
    clients_at_knee: float
    """The number of clients at which linear growth would reach the peak."""
    clients_at_peak: float | None
    """The number of clients with the highest throughput; None if it only levels off."""
    peak_tps: float
    """The highest throughput; infinite without a limit."""
    relative_error: float
    """Root mean square of the relative misfit."""
    knee_ci95: tuple[float, float]
    """95 % interval of ``clients_at_knee``; its upper end may be infinite."""

    def throughput_tps(self, clients: float) -> float:
        """Return X(N) = λ N / (1 + σ (N - 1) + κ N (N - 1))."""
        import numpy as np

        return float(_usl(np.array([clients]), *self._parameters)[0])

    @property
    def _parameters(self) -> tuple[float, float, float]:
        return self.single_tps, self.contention, self.coherence


def knee(clients: Sequence[float], throughput: Sequence[float]) -> ScalabilityLaw | None:
    """Fit the Universal Scalability Law (N. J. Gunther, "Guerrilla Capacity Planning", Springer
    2007, chapters 4 to 6) by least squares on the relative misfit, with σ and κ not negative.

    Returns None if there are fewer than four different numbers of clients with throughput above
    zero, or if the average relative error is more than 25 %.
    """
    import numpy as np

    counts, measured = (np.asarray(values, dtype=float) for values in (clients, throughput))
    if counts.shape != measured.shape:
        raise ValueError("expected as many throughputs as numbers of clients")
    usable = (counts > 0) & (measured > 0) & np.isfinite(measured)
    counts, measured = counts[usable], measured[usable]
    if len(np.unique(counts)) < POINTS_MIN:
        return None
    single, contention, coherence = _fit(counts, measured)
    error = _usl(counts, single, contention, coherence) / measured - 1
    relative_error = float(np.sqrt(np.mean(error**2)))
    if relative_error > ERROR_MAX:
        return None
    at_peak, peak = _peak(single, contention, coherence)
    bounds = _knee_ci95(counts, measured, peak / single)
    return ScalabilityLaw(
        single, contention, coherence, peak / single, at_peak, peak, relative_error, bounds
    )


class LawBounds(Struct, frozen=True):
    """95 % intervals of a law's parameters."""

    single_tps: tuple[float, float]
    contention: tuple[float, float]
    coherence: tuple[float, float]


def law_bounds(clients: Sequence[float], drawn: NDArray[np.float64]) -> LawBounds:
    """Return the intervals of λ, σ and κ from curves that are as likely as the measured one: a row
    of throughputs for each, in the order of ``clients`` (as ``Levels.draws`` makes them)."""
    import numpy as np

    counts = np.asarray(clients, dtype=float)
    fitted = np.array([_fit(counts, row) for row in drawn])
    low, high = np.quantile(fitted, [0.025, 0.975], axis=0)
    bounds = [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    return LawBounds(*bounds)


def _knee_ci95(
    counts: NDArray[np.float64], measured: NDArray[np.float64], best: float
) -> tuple[float, float]:
    """Return the smallest and the largest knee of laws that misfit by at most the factor
    1 + t(0.975, n-3)² / (n-3) more than the best one, whose knee is ``best`` (D. M. Bates and D. G.
    Watts, "Nonlinear regression analysis and its applications", Wiley 1988, chapter 6, profile t).
    """
    freedom = len(counts) - 3
    limit = 1 + student_t_quantile(freedom, 0.975) ** 2 / freedom
    limit *= max(_misfit_with_knee(counts, measured, best), MISFIT_MIN)

    def accepted(knee: float) -> bool:
        return _misfit_with_knee(counts, measured, knee) <= limit

    hi = math.inf if math.isinf(best) or accepted(KNEE_MAX) else _edge(accepted, best, KNEE_MAX)
    lo = min(best, KNEE_MAX)
    return 1.0 if accepted(1.0) else _edge(accepted, lo, 1.0), hi


def _edge(accepted: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the last accepted value between one that is accepted and one that is not."""
    while abs(math.log(outside / inside)) > KNEE_PRECISION:
        middle = math.sqrt(inside * outside)
        if accepted(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _misfit_with_knee(
    counts: NDArray[np.float64], measured: NDArray[np.float64], knee: float
) -> float:
    """Return the smallest sum of squared relative misfits of laws with this knee.

    They are searched by their peak N*: with q = 2/N* - 1/N*², the knee is 1 / (σ + (1 - σ) q).
    """
    import numpy as np

    low, high = 0.0, 1 / knee
    for _ in range(REFINEMENTS):
        q = np.linspace(low, high, GRID)
        at_most_1 = np.minimum(q, 1 - 1e-12)
        contention = np.maximum((1 / knee - at_most_1) / (1 - at_most_1), 0.0)
        coherence = (1 - contention) * (1 - np.sqrt(1 - at_most_1)) ** 2
        misfits = _misfits(counts, measured, contention, coherence)
        least = int(np.argmin(misfits))
        low, high = float(q[max(least - 1, 0)]), float(q[min(least + 1, GRID - 1)])
    return float(misfits[least])


def _misfits(
    counts: NDArray[np.float64],
    measured: NDArray[np.float64],
    contention: NDArray[np.float64],
    coherence: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the sum of squared relative misfits of each law, with its best λ."""
    import numpy as np

    others = counts - 1
    queue = 1 + np.outer(contention, others) + np.outer(coherence, counts * others)
    scaled = measured / counts * queue
    misfits: NDArray[np.float64] = len(counts) - scaled.sum(axis=1) ** 2 / (scaled**2).sum(axis=1)
    return misfits


def _fit(counts: NDArray[np.float64], measured: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return (λ, σ, κ) by linear least squares on N / X(N) = (1 + σ (N - 1) + κ N (N - 1)) / λ.

    The equation is weighted by its measured value, so that errors are relative. σ and κ must not be
    negative: of the fits with either, both or none of them, the best valid one is the solution,
    since the problem is convex.
    """
    import numpy as np

    pace = measured / counts
    terms = np.column_stack([np.ones_like(counts), counts - 1, counts * (counts - 1)])
    weighted = terms * pace[:, np.newaxis]
    best, least = np.zeros(3), math.inf
    for wanted in ([0, 1, 2], [0, 1], [0, 2], [0]):
        some, *_ = np.linalg.lstsq(weighted[:, wanted], np.ones_like(counts))
        fitted = np.zeros(3)
        fitted[wanted] = some
        misfit = float(np.sum((weighted @ fitted - 1) ** 2))
        if fitted[0] > 0 and (fitted >= 0).all() and misfit < least:
            best, least = fitted, misfit
    # Values this small are rounding errors.
    one, contention, coherence = (0.0 if x < 1e-9 * best[0] else float(x) for x in best)
    return 1 / one, contention / one, coherence / one


def _usl(
    counts: NDArray[np.float64], single: float, contention: float, coherence: float
) -> NDArray[np.float64]:
    others = counts - 1
    return single * counts / (1 + contention * others + coherence * counts * others)


def _peak(single: float, contention: float, coherence: float) -> tuple[float | None, float]:
    """Return (N*, X(N*)) with N* = √((1 - σ) / κ); without κ, the limit λ/σ, which is not
    reached."""
    import numpy as np

    if coherence > 0 and contention < 1:
        at_peak = max(1.0, math.sqrt((1 - contention) / coherence))
        return at_peak, float(_usl(np.array([at_peak]), single, contention, coherence)[0])
    if contention >= 1:
        return 1.0, single
    return None, single / contention if contention else math.inf
