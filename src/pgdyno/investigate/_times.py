"""The time budget of an investigation, and how it is divided."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from pgdyno.spec.units import format_duration
from pgdyno.stats import PAIRS_MIN
from pgdyno.trial.noise import WARM_UP_SECONDS
from pgdyno.trial.question import SLICE_OVERHEAD_SECONDS, Question

# Shares of the time budget. A trial with six pairs of slices takes about a seventh of it, so a
# noise floor, four trials and a recheck fit. Calibrated with budgets of 2 and 5 minutes.
_SLICE_SHARE = 1 / 110
_SLICE_SECONDS_RANGE = (0.8, 30.0)
_BASELINE_SHARE = 1 / 14
_BASELINE_SECONDS_RANGE = (5.0, 120.0)
_LEAST_SHARE = 0.8
"""Part of the estimated time of a trial that it takes on an idle machine."""
_WORTH_ALL_THE_TIME = 2.0
"""Least predicted ratio of a remedy for whose trial no time is set aside, if it fits only so."""
_LAST_BEYOND_SHARE = 0.05
"""Share of the time budget by which the last trial may exceed it: without it, the result has no
figure for everything kept."""


class TimeBudget:
    """Seconds of load, from its creation on."""

    def __init__(self, budget_s: float) -> None:
        self._began_s = time.monotonic()
        self.budget_s = budget_s
        self._no_trials = False
        self._taken_parts: list[float] = []
        self.slice_s = _within_range(budget_s * _SLICE_SHARE, _SLICE_SECONDS_RANGE)
        self.baseline_s = _within_range(budget_s * _BASELINE_SHARE, _BASELINE_SECONDS_RANGE)

    @property
    def deadline_s(self) -> float:
        """The end of the budget, in monotonic seconds."""
        return self._began_s + self.budget_s

    @property
    def left_s(self) -> float:
        """Time until the end; below zero after it."""
        return self.deadline_s - time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._began_s

    @property
    def plain_trial_s(self) -> float:
        """Approximate time of six pairs of slices of the usual length."""
        return PAIRS_MIN * 2 * (self.slice_s + SLICE_OVERHEAD_SECONDS)

    def trial_s(self, questions: Iterable[Question]) -> float:
        """Return the approximate time of six pairs of each question. How long it takes to rearrange
        a server or its tables is not known before: those of earlier trials tell, the longest."""
        part = max(self._taken_parts, default=1.0)
        return sum(
            PAIRS_MIN * each.pair_seconds * (part if each.rearranged_seconds else 1.0)
            for each in questions
        )

    def learn(self, question: Question, pair_s: float) -> None:
        """Take account of the time that a pair of a question took."""
        if question.rearranged_seconds:
            self._taken_parts.append(pair_s / question.pair_seconds)

    def enough_for(self, questions: Iterable[Question], *, reserved_s: float = 0.0) -> bool:
        """Return whether six pairs of each question fit, with ``reserved_s`` left over."""
        fits = self.trial_s(questions) + reserved_s <= self.left_s
        return fits and not self._no_trials

    def set_aside_s(
        self, question: Question, wanted_s: float, predicted_ratio: float | None
    ) -> float:
        """Return the time to set aside from the trial of a remedy: ``wanted_s``; or none, if the
        trial fits only so and the remedy promises more than the measures after it would tell."""
        promises = predicted_ratio is not None and predicted_ratio >= _WORTH_ALL_THE_TIME
        needs_it = not self.enough_for([question], reserved_s=wanted_s)
        return 0.0 if promises and needs_it else wanted_s

    def enough_for_last(self, question: Question) -> bool:
        """Return whether six pairs of the last question fit, or exceed the budget by little."""
        beyond_s = _LAST_BEYOND_SHARE * self.budget_s
        return self.enough_for([question], reserved_s=-beyond_s)

    def ends_before_trials(self) -> bool:
        """Return whether the noise floor and a trial after it no longer fit, and if so, let no
        trial begin: without a trial the noise floor tells nothing, nor a trial without it."""
        self._no_trials = 2 * _LEAST_SHARE * self.plain_trial_s > self.left_s
        return self._no_trials

    def too_short_words(self) -> str:
        """Return that no remedy is tried, and the budget that one needs."""
        needed_s = WARM_UP_SECONDS + self.baseline_s + 2 * self.plain_trial_s
        return (
            f"the budget of {format_duration(round(1000 * self.budget_s))} is too short to try a"
            f" remedy, which needs about {needed_s:.0f} s: the load is diagnosed only"
        )

    def minutes_beyond(self, question: Question) -> int | None:
        """Return the budget in minutes that a question needs, if even the whole of this one is too
        short: for the baseline, the noise floor, and six pairs."""
        needed_s = self.baseline_s + self.plain_trial_s + self.trial_s([question])
        return math.ceil(needed_s / 60) if needed_s > self.budget_s else None


def _within_range(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])
