"""The number of pairs of a trial: planned before its first pair, extended at most once.

The plan depends on the spread of identical slices and on the time that is left, never on the
figures of the trial itself, so that the interval keeps its level for the planned number of pairs.
Stopping as soon as the interval is narrow enough does not keep it: the pairs that happen to lie
close together end the trial, and their interval is too narrow. A trial that is inconclusive after
the planned pairs may be extended once, to a number of pairs that is part of the plan. The errors
are divided between its two looks: by Bonferroni's inequality, at most 1/32 + 3/160 = 5 % of the
intervals miss the ratio, whichever of them is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from msgspec import Struct

from pgdyno.stats._pairs import (
    CONFIDENCE,
    EFFECT_MATTERS,
    PAIRS_MAX,
    PAIRS_MIN,
    TrialVerdict,
    pairs_needed,
)

FIRST_CONFIDENCE = 1 - 1 / 32
"""Confidence at the first look of a trial: the highest that six pairs reach."""
LAST_CONFIDENCE = 1 - (0.05 - 1 / 32)

EXTENSION_FACTOR_MIN = 1.5
"""An extension to fewer pairs than these times the first ones would hardly narrow the interval."""

PREDICTED_SHARE = 0.25
"""Required precision of an effect predicted before the trial, as a share of the effect."""

ASSURANCE = 0.8
"""Probability that the planned pairs give the required precision (L. Kupper and K. Hafner, "How
appropriate are popular sample size formulas?", The American Statistician 43, 1989)."""


class PairPlan(Struct, frozen=True):
    """The pairs of a trial: after ``first`` it is decided, after ``last`` for the last time."""

    first: int
    last: int
    """The same as ``first`` if the trial is not extended."""

    @property
    def extensible(self) -> bool:
        """True if an inconclusive trial is extended."""
        return self.last > self.first

    @property
    def first_confidence(self) -> float:
        """Confidence of the interval after the first pairs."""
        return FIRST_CONFIDENCE if self.extensible else CONFIDENCE


SIX_PAIRS = PairPlan(PAIRS_MIN, PAIRS_MIN)
"""The plan of a trial of identical slices, before which nothing is known."""


def plan_pairs(
    log_sd: float,
    pairs_known: int,
    *,
    pairs_max: int,
    pairs_in_time: int | None = None,
    effect_matters: float = EFFECT_MATTERS,
    predicted_ratio: float | None = None,
    resumable: bool = False,
) -> PairPlan:
    """Return the plan of a trial, from the spread of ``pairs_known`` pairs of identical slices.

    The first look has a half-width of the effect that matters or, for an effect predicted before
    the trial, of a quarter of the prediction, if that is larger. The last look has that of the
    effect that matters, in any case. Both are limited to ``pairs_max`` and to ``pairs_in_time``
    (None: no limit), the last look of a ``resumable`` trial to ``pairs_max`` alone.
    """
    matters = math.log1p(effect_matters)
    precise = precise_half_width(predicted_ratio, effect_matters)
    spread = _assured(log_sd, pairs_known)
    in_time = max(PAIRS_MIN, min(pairs_max, pairs_max if pairs_in_time is None else pairs_in_time))
    first = min(max(_needed(spread, precise, FIRST_CONFIDENCE), PAIRS_MIN), in_time)
    last = max(2 * first, _needed(spread, matters, LAST_CONFIDENCE))
    last = min(last, pairs_max if resumable else in_time)
    return PairPlan(first, last if last >= EXTENSION_FACTOR_MIN * first else first)


def precise_half_width(
    predicted_ratio: float | None, effect_matters: float = EFFECT_MATTERS
) -> float:
    """Return the half-width, on the log ratio, of an interval that is precise: that of the effect
    that matters or, if larger, a quarter of the predicted effect."""
    matters = math.log1p(effect_matters)
    if predicted_ratio is None:
        return matters
    return max(matters, PREDICTED_SHARE * abs(math.log(predicted_ratio)))


def _needed(log_sd: float, log_half_width: float, confidence: float) -> int:
    return pairs_needed(log_sd, log_half_width, confidence=confidence) or PAIRS_MAX


def _assured(log_sd: float, pairs: int) -> float:
    """Return the upper limit of the spread at :data:`ASSURANCE`, from its estimate (χ² by E. B.
    Wilson and M. M. Hilferty, PNAS 17, 1931)."""
    freedom = pairs - 1
    if freedom < 1:
        return log_sd
    ninth = 2 / (9 * freedom)
    root = 1 - ninth + NormalDist().inv_cdf(1 - ASSURANCE) * math.sqrt(ninth)
    return log_sd / math.sqrt(max(root, 0.1) ** 3)


class PairSequence:
    """Decides after each pair of a trial whether another one is measured.

    It is told of each pair, and asks for a verdict at the looks of its plan only. A trial and its
    simulation both run on it.
    """

    def __init__(self, plan: PairPlan, verdict: Callable[[float], TrialVerdict]) -> None:
        """Start without pairs; ``verdict`` decides about all pairs, at a given confidence."""
        self.plan = plan
        self.confidence = plan.first_confidence
        """Confidence of the interval that is shown."""
        self._decide = verdict
        self.verdict: TrialVerdict | None = None
        """The verdict of the latest look."""
        self.target = plan.first
        """Number of pairs at the next look."""
        self._looks = 0

    def goes_on(self, pairs: int, pairs_in_time: int) -> bool:
        """Return whether to measure another pair after ``pairs``; there is time for
        ``pairs_in_time`` more."""
        if pairs < min(PAIRS_MIN, self.plan.first):
            return True
        if pairs < self.target and pairs_in_time > 0:
            return True
        self._look()
        return self.extend(pairs, pairs_in_time)

    def extend(self, pairs: int, pairs_in_time: int) -> bool:
        """Extend an inconclusive trial, also later, if it may be and there is time for it; return
        whether it was extended."""
        within_reach = min(self.plan.last, pairs + pairs_in_time)
        if not self.can_extend or within_reach < EXTENSION_FACTOR_MIN * pairs:
            return False
        self.target = self.plan.last
        return True

    @property
    def can_extend(self) -> bool:
        """True if the trial is inconclusive after its first look and its plan has another."""
        return (
            self._looks == 1
            and self.plan.extensible
            and self.verdict is not None
            and self.verdict.outcome == "inconclusive"
        )

    def _look(self) -> None:
        self._looks += 1
        self.confidence = self.plan.first_confidence if self._looks == 1 else LAST_CONFIDENCE
        self.verdict = self._decide(self.confidence)
