"""Growth of throughput with clients, and its limit: the Universal Scalability Law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POINTS_MIN = 4
"""A fit of three parameters needs at least four different numbers of clients."""

ERROR_MAX = 0.25
"""Largest average relative error of a useful fit."""

RESAMPLES = 400
FACTOR_MIN = 0.05
"""Minimum factor of a resampled throughput, which must be positive."""


@dataclass(frozen=True)
class Knee:
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
        return float(_usl(np.array([clients]), *self._parameters)[0])

    @property
    def _parameters(self) -> tuple[float, float, float]:
        return self.single_tps, self.contention, self.coherence


def knee(clients: Sequence[float], throughput: Sequence[float]) -> Knee | None:
    """Fit the Universal Scalability Law (N. J. Gunther, "Guerrilla Capacity Planning", Springer
    2007, chapters 4 to 6) by least squares on the relative misfit, with σ and κ not negative.

    Returns None if there are fewer than four different numbers of clients with throughput above
    zero, or if the average relative error is more than 25 %.
    """
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
    bounds = _knee_ci95(counts, measured, (single, contention, coherence))
    return Knee(single, contention, coherence, peak / single, at_peak, peak, relative_error, bounds)


def _knee_ci95(
    counts: NDArray[np.float64], measured: NDArray[np.float64], fitted: tuple[float, float, float]
) -> tuple[float, float]:
    """Return percentiles of the knee over fits to resampled residuals (B. Efron and R. Tibshirani,
    "An Introduction to the Bootstrap", 1993, chapter 9), widened for the three parameters
    fitted."""
    curve = _usl(counts, *fitted)
    freedom = max(len(counts) - len(fitted), 1)
    residuals = (measured / curve - 1) * math.sqrt(len(counts) / freedom)
    drawn = np.random.default_rng(0).choice(residuals, (RESAMPLES, len(counts)))
    knees = []
    for resampled in curve * np.maximum(1 + drawn, FACTOR_MIN):
        single, *others = _fit(counts, resampled)
        knees.append(_peak(single, *others)[1] / single)
    ordered = sorted(knees)
    return ordered[int(0.025 * RESAMPLES)], ordered[int(0.975 * RESAMPLES)]


def _fit(counts: NDArray[np.float64], measured: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return (λ, σ, κ) by linear least squares on N / X(N) = (1 + σ (N - 1) + κ N (N - 1)) / λ.

    The equation is weighted by its measured value, so that errors are relative. σ and κ must not be
    negative: of the fits with either, both or none of them, the best valid one is the solution,
    since the problem is convex.
    """
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
    if coherence > 0 and contention < 1:
        at_peak = max(1.0, math.sqrt((1 - contention) / coherence))
        return at_peak, float(_usl(np.array([at_peak]), single, contention, coherence)[0])
    if contention >= 1:
        return 1.0, single
    return None, single / contention if contention else math.inf
