"""What pairs of slices say: the effect with its interval, the noise floor, the verdict.

An effect is a ratio b/a, so all is reckoned on its logarithm: doubling and halving are equally far
from no effect, and swapping a and b turns every number into its reciprocal.

Why Student's t: the order within a pair is random, so whatever the machine does to a pair (a dip
to half speed, a drift) is as likely to favour a as b. Under that symmetry Student's t keeps its
level also for heavy tails, being merely conservative there (B. Efron, "Student's t-test under
symmetry conditions", JASA 64, 1969). tests/unit/test_stats_pairs.py simulates it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pgdyno._engine import student_t_quantile
from pgdyno.stats.words import effect_words, kept, percent_words

CONFIDENCE = 0.95
PAIRS_MIN = 6
"""Two-sided, five pairs can never reach 5 % by their signs alone (2 / 2⁵); six can."""

EFFECT_MATTERS = 0.03
"""The smallest effect worth a change, unless the user says otherwise."""

PREDICTED_SHARE = 0.25
"""An effect predicted beforehand need not be known closer than to a quarter of itself."""

PAIRS_MOST = 9999
"""More pairs than this nobody will run."""

Outcome = Literal["better", "worse", "no difference", "inconclusive", "not comparable"]
"""The last is not for pairs to say: one side did other work than the other."""


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
    """What identical slices differ by: the 95 % interval of their ratio."""

    lo: float
    hi: float
    half_width: float
    """The largest difference from 1 within the interval, as a fraction: 0.031 is ±3.1 %."""


@dataclass(frozen=True)
class Verdict:
    """What a trial says about a change."""

    outcome: Outcome
    pairs_needed: int | None
    """About how many further pairs would settle it; None if settled, or if no number would."""
    sentence: str


def paired_effect(a: Sequence[float], b: Sequence[float]) -> Effect:
    """Effect of b over a from values measured in pairs: a[i] and b[i] side by side.

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


def noise_floor(a: Sequence[float], b: Sequence[float]) -> NoiseFloor:
    """The noise floor from pairs of identical slices. ValueError as in ``paired_effect``.

    ``half_width`` reaches to the interval's farther end: no smaller difference between identical
    slices is ruled out, so no smaller effect is called one.
    """
    effect = paired_effect(a, b)
    # From the bounds as they are kept, of which reports reckon it again.
    half_width = max(1 / kept(effect.lo), kept(effect.hi)) - 1
    return NoiseFloor(effect.lo, effect.hi, half_width)


def decide(
    effect: Effect,
    noise: NoiseFloor | None,
    *,
    effect_matters: float = EFFECT_MATTERS,
    higher_is_better: bool = True,
) -> Verdict:
    """What the effect amounts to.

    - no difference: the whole interval lies within ±max(effect_matters, noise). That a difference
      is too small to matter is shown by the interval, never by the lack of significance.
    - better, worse: the interval excludes 1, and the effect exceeds the noise floor.
    - inconclusive: anything else.
    """
    mean = math.log(effect.ratio)
    low, high = math.log(effect.lo), math.log(effect.hi)
    floor = math.log1p(noise.half_width) if noise else 0.0
    bound = max(math.log1p(effect_matters), floor)
    measured = f"{effect_words(effect.ratio, effect.lo, effect.hi)} in {effect.pairs} pairs"
    if -bound <= low and high <= bound:
        within = f"all within ±{percent_words(math.expm1(bound))}"
        return Verdict("no difference", None, f"no difference: {measured}, {within}")
    if (low > 0 or high < 0) and abs(mean) > floor:
        outcome: Outcome = "better" if (mean > 0) == higher_is_better else "worse"
        beyond = f"; identical slices differ by up to {percent_words(math.expm1(floor))}"
        return Verdict(outcome, None, f"{outcome}: {measured}{beyond if noise else ''}")
    # Narrower by enough, the interval would exclude 1, or come to lie within the bound.
    target = max(abs(mean) if abs(mean) > floor else 0.0, bound - abs(mean))
    more = pairs_needed(effect.log_sd, target, pairs_done=effect.pairs)
    rest = f"about {more} more pairs would tell" if more else "more pairs would hardly tell"
    return Verdict("inconclusive", more, f"inconclusive: {measured}; {rest}")


def needs_more_pairs(
    effect: Effect,
    *,
    effect_matters: float = EFFECT_MATTERS,
    pairs_min: int = PAIRS_MIN,
    predicted_ratio: float | None = None,
) -> bool:
    """Whether to measure further pairs. Looks at the interval's width alone, never at where it
    lies: stopping because a result looks significant would make it so too often.

    The width that suffices is the effect that matters or, for an effect predicted before the
    trial began (``predicted_ratio``), a quarter of that, whichever is larger.
    """
    if effect.pairs < pairs_min:
        return True
    enough = math.log1p(effect_matters)
    if predicted_ratio is not None:
        enough = max(enough, PREDICTED_SHARE * abs(math.log(predicted_ratio)))
    return effect.log_half_width > enough


def pairs_needed(log_sd: float, log_half_width: float, *, pairs_done: int = 0) -> int | None:
    """How many pairs beyond ``pairs_done`` bring the interval's half-width down to the one given.

    The smallest n with t(0.975, n-1) log_sd / √n ≤ log_half_width, found by bisection since the
    t quantile depends on n as well. At least 1; None if ``PAIRS_MOST`` would not do.
    """
    if log_half_width <= 0 or _half_width(log_sd, PAIRS_MOST) > log_half_width:
        return None
    too_few, enough = 1, PAIRS_MOST
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if _half_width(log_sd, middle) <= log_half_width:
            enough = middle
        else:
            too_few = middle
    return max(1, enough - pairs_done)


def _half_width(log_sd: float, pairs: int) -> float:
    return student_t_quantile(pairs - 1, (1 + CONFIDENCE) / 2) * log_sd / math.sqrt(pairs)
