"""Statistics of pairs of slices: the effect with its interval, and the verdict.

An effect is a ratio b/a and is computed on its logarithm: doubling and halving are equally far from
no effect, and swapping a and b turns every ratio into its reciprocal.

Intervals are J. A. Hartigan's ("Using subsample values as typical values", JASA 64, 1969): if the
log ratio of each pair is distributed symmetrically around the effect, the means of all 2ⁿ - 1
subsets of n pairs divide the line into 2ⁿ parts that contain the effect with equal probability. The
order within a pair is random, so a disturbance of the machine (a dip to half speed, a drift, a
cycle) is as likely to favour a as b: the symmetry comes from the design of the trial and is no
assumption about the noise. The level holds for a number of pairs that does not depend on their
figures (``_plan.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from pgdyno import numbers
from pgdyno._engine import student_t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE = 0.95
PAIRS_MIN = 6
"""The signs of five pairs cannot reach 5 % in a two-sided test (2 / 2⁵); those of six can."""

EFFECT_MATTERS = 0.03
"""The smallest effect that is worth a change, by default."""

POWER = 0.8
"""Probability with which an effect that pairs "can show" excludes 1."""

SUBSETS_ALL_PAIRS_MAX = 12
"""Up to this many pairs, all subsets are used; with more, random ones, which have the same property
(J. Hemerik and J. Goeman, "Exact testing with random permutations", TEST 27, 2018)."""

PAIRS_MAX = 9999
"""The largest number of pairs that is suggested."""

Outcome = Literal["better", "worse", "mixed", "no difference", "inconclusive", "not comparable"]
"""Mixed: a client group loses, or more transactions fail. Not comparable: too many failed."""


class PairedEffect(Struct, frozen=True):
    """Geometric mean of the ratios b/a over ``pairs``, with its interval ``lo`` to ``hi``."""

    ratio: float
    lo: float
    hi: float
    pairs: int
    log_sd: float
    """Standard deviation of one pair's log ratio."""
    confidence: float = CONFIDENCE
    """Confidence of this interval alone; those of all looks of a trial together have 95 %."""

    @property
    def log_half_width(self) -> float:
        """Half the interval's width on the log ratio: 0.03 is about ±3 %."""
        return math.log(self.hi / self.lo) / 2

    @property
    def excludes_1(self) -> bool:
        """True if no difference at all lies outside the interval."""
        return not self.lo <= 1 <= self.hi

    def pairs_to_show(self, log_ratio: float) -> int | None:
        """Return the fewest pairs with this spread that show an effect; None if too many."""
        return _fewest(lambda pairs: math.log1p(self.can_show(pairs)) <= abs(log_ratio))

    def can_show(self, pairs: int) -> float:
        """Return the smallest effect, as a fraction, that ``pairs`` with this spread show in four
        of five trials: (t(0.975, n-1) + t(0.8, n-1)) s / √n (J. M. Lachin, Controlled Clinical
        Trials 2, 1981)."""
        quantiles = (student_t_quantile(pairs - 1, p) for p in ((1 + CONFIDENCE) / 2, POWER))
        return math.expm1(sum(quantiles) * self.log_sd / math.sqrt(pairs))


class TrialVerdict(Struct, frozen=True):
    """The verdict of a trial about a change."""

    outcome: Outcome
    pairs_needed: int | None
    """Approximate number of further pairs for a decision; None if decided, or if too many."""
    sentence: str
    against: tuple[str, ...] = ()
    """Sentences about what speaks against the change: client groups that lose, failures."""


def paired_effect(
    a: Sequence[float], b: Sequence[float], *, confidence: float = CONFIDENCE
) -> PairedEffect:
    """Return the effect of b over a from values measured in pairs, a[i] with b[i].

    Interval: the subset means of the log ratios, exponentiated, without the smallest and largest
    of them that the confidence leaves out. Too few pairs for that (fewer than six for 95 %) have
    Student's t interval. ValueError for fewer than two pairs, unequal lengths, or a value that is
    not positive and finite.
    """
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"need at least two pairs, not {len(a)} and {len(b)} values")
    if not all(0 < value < math.inf for value in (*a, *b)):
        raise ValueError("a ratio needs positive, finite values")
    logs = [math.log(after) - math.log(before) for before, after in zip(a, b, strict=True)]
    pairs = len(logs)
    mean, log_sd = math.fsum(logs) / pairs, stdev(logs)
    lo, hi = mean_bounds(logs, confidence)
    # Rounding errors may put the mean of equal values beyond them.
    lo, hi = math.exp(min(lo, mean)), math.exp(max(hi, mean))
    return PairedEffect(math.exp(mean), lo, hi, pairs, log_sd, confidence)


def mean_bounds(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of the centre of at least two symmetrically distributed values."""
    return _subset_bounds(values, confidence) or _student_bounds(values, confidence)


def _subset_bounds(values: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """Return Hartigan's interval; None if the values are too few for it."""
    import numpy as np

    subsets = _subsets(len(values))
    left_out = math.floor((1 - confidence) / 2 * (len(subsets) + 1) + 1e-9)
    if not left_out:
        return None
    means = np.sort(subsets @ np.asarray(values))
    return float(means[left_out - 1]), float(means[-left_out])


@lru_cache(maxsize=4)
def _subsets(size: int) -> NDArray[np.float64]:
    """Return a row of weights for the mean of each subset, which is not empty."""
    import numpy as np

    if size <= SUBSETS_ALL_PAIRS_MAX:
        chosen = (np.arange(1, 2**size)[:, np.newaxis] >> np.arange(size)) & 1
    else:
        rows = 4095 if size <= 64 else 1023
        chosen = np.random.default_rng(size).integers(0, 2, (rows, size))
        chosen[chosen.sum(axis=1) == 0, 0] = 1
    weights: NDArray[np.float64] = chosen / chosen.sum(axis=1, keepdims=True)
    return weights


def _student_bounds(values: Sequence[float], confidence: float) -> tuple[float, float]:
    half = _half_width(stdev(values), len(values), confidence)
    return fmean(values) - half, fmean(values) + half


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values. The means of b and a in pairs have the ratio
    that ``paired_effect`` returns, which arithmetic means have not. ValueError without values."""
    if not values:
        raise ValueError("no values have no mean")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def decide(
    effect: PairedEffect,
    *,
    effect_matters: float = EFFECT_MATTERS,
    higher_is_better: bool = True,
    noise: PairedEffect | None = None,
) -> TrialVerdict:
    """Return the verdict about the effect. ``noise`` is the comparison of identical slices.

    - no difference: the whole interval lies within ±effect_matters. The interval shows that a
      difference is too small to matter; a lack of significance does not.
    - better, worse: the interval excludes 1, and the effect is not smaller than what as many pairs
      of identical slices can show. A trial whose pairs happen to lie close together does not call
      an effect what the noise, as it is stated, would hide.
    - inconclusive: anything else.
    """
    matters = math.log1p(effect_matters)
    measured = f"{numbers.effect(effect.ratio, effect.lo, effect.hi)} in {effect.pairs} pairs"
    if -matters <= math.log(effect.lo) and math.log(effect.hi) <= matters:
        within = f"all within ±{numbers.percent(effect_matters)}"
        return TrialVerdict("no difference", None, f"no difference: {measured}, {within}")
    shows = noise.can_show(effect.pairs) if noise is not None and noise.pairs else 0.0
    hidden = abs(math.log(effect.ratio)) < math.log1p(shows)
    if hidden and effect.excludes_1:
        measured += f", less than the {numbers.percent(shows)} that identical slices can show"
    if hidden or not effect.excludes_1:
        return _inconclusive(effect, matters, measured, noise if hidden else None)
    outcome: Outcome = "better" if (effect.ratio > 1) == higher_is_better else "worse"
    return TrialVerdict(outcome, None, f"{outcome}: {measured}")


def _inconclusive(
    effect: PairedEffect, matters: float, measured: str, noise: PairedEffect | None
) -> TrialVerdict:
    """Return the verdict with the pairs that would decide; ``noise`` hides the effect in so many.
    ``matters`` is a log ratio."""
    mean, lo, hi = (math.log(value) for value in (effect.ratio, effect.lo, effect.hi))
    below, above = mean - lo, hi - mean
    if abs(mean) >= matters - abs(mean):  # closer to excluding 1 than to lying within the margin
        target, reach = abs(mean), below if mean > 0 else above
    else:
        target, reach = matters - abs(mean), max(below, above)
    spread = effect.log_sd * reach / _half_width(effect.log_sd, effect.pairs, effect.confidence)
    more = pairs_needed(spread, target, pairs_done=effect.pairs, confidence=effect.confidence)
    if more and noise is not None and target == abs(mean):
        shown_by = noise.pairs_to_show(mean)
        more = max(more, shown_by - effect.pairs) if shown_by else None
    return TrialVerdict("inconclusive", more, f"inconclusive: {measured}; {more_pairs_words(more)}")


def more_pairs_words(pairs: int | None) -> str:
    """Return the number of further pairs that a decision needs, in words."""
    if not pairs:
        return "more pairs are unlikely to decide it"
    return f"about {pairs} more {'pair is' if pairs == 1 else 'pairs are'} needed"


def pairs_needed(
    log_sd: float, log_half_width: float, *, pairs_done: int = 0, confidence: float = CONFIDENCE
) -> int | None:
    """Return about how many pairs beyond ``pairs_done`` give an interval of the given half-width.

    The smallest n with t((1 + confidence)/2, n-1) log_sd / √n ≤ log_half_width, found by bisection
    since the t quantile depends on n as well; subset means are as close, but for less than about
    ten pairs. At least 1; None if ``PAIRS_MAX`` are too few.
    """
    if log_half_width <= 0:
        return None
    enough = _fewest(lambda pairs: _half_width(log_sd, pairs, confidence) <= log_half_width)
    return max(1, enough - pairs_done) if enough else None


def _fewest(suffice: Callable[[int], bool]) -> int | None:
    """Return the fewest pairs, from two on, that suffice, as all larger numbers do; None if
    ``PAIRS_MAX`` are too few."""
    if not suffice(PAIRS_MAX):
        return None
    too_few, enough = 1, PAIRS_MAX
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if suffice(middle):
            enough = middle
        else:
            too_few = middle
    return enough


def _half_width(log_sd: float, pairs: int, confidence: float) -> float:
    return student_t_quantile(pairs - 1, (1 + confidence) / 2) * log_sd / math.sqrt(pairs)
