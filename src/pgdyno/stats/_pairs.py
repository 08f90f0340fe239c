"""Statistics of pairs of slices: the effect with its interval, the noise floor, the verdict.

An effect is a ratio b/a and is computed on its logarithm: doubling and halving are equally far from
no effect, and swapping a and b turns every ratio into its reciprocal.

Intervals are Student's t. The order within a pair is random, so a disturbance of the machine (a dip
to half speed, a drift) is as likely to favour a as b. Under that symmetry Student's t keeps its
level also for heavy tails, where it is conservative (B. Efron, "Student's t-test under symmetry
conditions", JASA 64, 1969). tests/unit/test_stats_pairs.py simulates it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pgdyno._engine import student_t_quantile
from pgdyno.stats.words import effect_words, more_pairs_words, percent_words, rounded

CONFIDENCE = 0.95
PAIRS_MIN = 6
"""The signs of five pairs cannot reach 5 % in a two-sided test (2 / 2⁵); those of six can."""

EFFECT_MATTERS = 0.03
"""The smallest effect that is worth a change, by default."""

PREDICTED_SHARE = 0.25
"""Required precision of an effect predicted before the trial, as a share of the effect."""

PAIRS_MAX = 9999
"""The largest number of pairs that is suggested."""

Outcome = Literal["better", "worse", "no difference", "inconclusive", "not comparable"]
"""Not comparable is not decided from pairs: too many transactions failed on one side."""


@dataclass(frozen=True)
class Effect:
    """Geometric mean of the ratios b/a over ``pairs``, with its 95 % interval ``lo`` to ``hi``."""

    ratio: float
    lo: float
    hi: float
    pairs: int
    log_sd: float
    """Standard deviation of one pair's log ratio."""

    @property
    def log_half_width(self) -> float:
        """Half the interval's width on the log ratio: 0.03 is about ±3 %."""
        return math.log(self.hi / self.lo) / 2


@dataclass(frozen=True)
class NoiseFloor:
    """The difference between identical slices: the 95 % interval of their ratio."""

    lo: float
    hi: float
    half_width: float
    """The largest difference from 1 within the interval, as a fraction: 0.031 is ±3.1 %."""


@dataclass(frozen=True)
class Verdict:
    """The verdict of a trial about a change."""

    outcome: Outcome
    pairs_needed: int | None
    """Approximate number of further pairs for a decision; None if decided, or if too many."""
    sentence: str


def paired_effect(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Return the effect of b over a from values measured in pairs, a[i] with b[i].

    Interval: mean ± t(0.975, n-1) s / √n of the log ratios, exponentiated. ValueError for fewer
    than two pairs, unequal lengths, or a value that is not positive and finite.
    """
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"need at least two pairs, not {len(a)} and {len(b)} values")
    if not all(0 < value < math.inf for value in (*a, *b)):
        raise ValueError("a ratio needs positive, finite values")
    logs = [math.log(after) - math.log(before) for before, after in zip(a, b, strict=True)]
    pairs = len(logs)
    mean = math.fsum(logs) / pairs
    log_sd = math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (pairs - 1))
    half = _half_width(log_sd, pairs)
    return Effect(math.exp(mean), math.exp(mean - half), math.exp(mean + half), pairs, log_sd)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values. The means of b and a in pairs have the ratio
    that ``paired_effect`` returns, which arithmetic means have not. ValueError without values."""
    if not values:
        raise ValueError("no values have no mean")
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def noise_floor(a: Sequence[float], b: Sequence[float]) -> NoiseFloor:
    """Return the noise floor from pairs of identical slices. ValueError as in ``paired_effect``.

    ``half_width`` is the distance to the interval's farther end: identical slices may differ by
    that much, so no smaller effect counts.
    """
    effect = paired_effect(a, b)
    # Computed from the rounded bounds, as in reports.
    half_width = max(1 / rounded(effect.lo), rounded(effect.hi)) - 1
    return NoiseFloor(effect.lo, effect.hi, half_width)


def decide(
    effect: Effect,
    noise: NoiseFloor | None,
    *,
    effect_matters: float = EFFECT_MATTERS,
    higher_is_better: bool = True,
) -> Verdict:
    """Return the verdict about the effect.

    - no difference: the whole interval lies within ±effect_matters. The interval shows that a
      difference is too small to matter; a lack of significance does not.
    - better, worse: the interval excludes 1, and the effect exceeds the noise floor.
    - inconclusive: anything else.

    The noise floor never widens the margin of "no difference". It is an interval of identical
    slices, and the noisier the machine, the wider it is.
    """
    low, high = math.log(effect.lo), math.log(effect.hi)
    matters = math.log1p(effect_matters)
    measured = f"{effect_words(effect.ratio, effect.lo, effect.hi)} in {effect.pairs} pairs"
    if -matters <= low and high <= matters:
        within = f"all within ±{percent_words(effect_matters)}"
        return Verdict("no difference", None, f"no difference: {measured}, {within}")
    floor = math.log1p(noise.half_width) if noise else 0.0
    differ = f"identical slices differ by up to {percent_words(math.expm1(floor))}"
    if not (low > 0 or high < 0):
        return _inconclusive(effect, matters, measured)
    if abs(math.log(effect.ratio)) <= floor:
        return _inconclusive(effect, matters, f"{measured}, and {differ}")
    outcome: Outcome = "better" if (effect.ratio > 1) == higher_is_better else "worse"
    beyond = f"; {differ}" if noise else ""
    return Verdict(outcome, None, f"{outcome}: {measured}{beyond}")


def _inconclusive(effect: Effect, matters: float, measured: str) -> Verdict:
    """Return the verdict with the pairs that would decide. ``matters`` is a log ratio."""
    mean = abs(math.log(effect.ratio))
    # An interval of this half-width would exclude 1, or lie within the margin.
    target = max(mean, matters - mean) if effect.lo <= 1 <= effect.hi else matters
    if effect.log_half_width <= target:
        return Verdict("inconclusive", None, f"inconclusive: {measured}; longer slices are needed")
    more = pairs_needed(effect.log_sd, target, pairs_done=effect.pairs)
    rest = more_pairs_words(more) if more else "more pairs are unlikely to decide it"
    return Verdict("inconclusive", more, f"inconclusive: {measured}; {rest}")


def needs_more_pairs(
    effect: Effect,
    *,
    effect_matters: float = EFFECT_MATTERS,
    pairs_min: int = PAIRS_MIN,
    predicted_ratio: float | None = None,
) -> bool:
    """Return whether to measure further pairs.

    Depends only on the width of the interval, not on its position: stopping as soon as a result
    looks significant would produce too many significant results. The required width is the effect
    that matters or, for an effect predicted before the trial (``predicted_ratio``), a quarter of
    the prediction, whichever is larger.
    """
    if effect.pairs < pairs_min:
        return True
    enough = math.log1p(effect_matters)
    if predicted_ratio is not None:
        enough = max(enough, PREDICTED_SHARE * abs(math.log(predicted_ratio)))
    return effect.log_half_width > enough


def pairs_needed(log_sd: float, log_half_width: float, *, pairs_done: int = 0) -> int | None:
    """Return the pairs needed beyond ``pairs_done`` for an interval of the given half-width.

    The smallest n with t(0.975, n-1) log_sd / √n ≤ log_half_width, found by bisection since the
    t quantile depends on n as well. At least 1; None if ``PAIRS_MAX`` are too few.
    """
    if log_half_width <= 0 or _half_width(log_sd, PAIRS_MAX) > log_half_width:
        return None
    too_few, enough = 1, PAIRS_MAX
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if _half_width(log_sd, middle) <= log_half_width:
            enough = middle
        else:
            too_few = middle
    return max(1, enough - pairs_done)


def _half_width(log_sd: float, pairs: int) -> float:
    return student_t_quantile(pairs - 1, (1 + CONFIDENCE) / 2) * log_sd / math.sqrt(pairs)
