"""Predicted ratios with the interval of what a model leaves open, and the tolerance within which a
measured effect counts as predicted."""

from __future__ import annotations

import math
from typing import Self

from pgdyno import numbers
from pgdyno.stats._pairs import EFFECT_MATTERS, PairedEffect
from pgdyno.stats._plan import precise_half_width

TOLERANCE = 2.0
"""Factor by which measured and predicted effects may differ, on the log ratio: a predicted 1.5x
covers 1.22x to 2.25x. Our choice: less than half or more than twice the predicted effect has mainly
another cause than the predicted one."""

MODEL_ERROR = 0.12
"""Error of a predicted log ratio, relative to it, on top of what the model leaves open. Root mean
square of nine proofs, 7x to 170x, on two quiet cores (``docs/exam.md``), off by 1 to 21 %."""


class Prediction(float):
    """A predicted ratio: the best guess, and the interval of what is not known of it.

    ``low`` is the cautious end. Without an interval both ends are the guess.
    """

    low: float
    high: float

    def __new__(cls, ratio: float, low: float | None = None, high: float | None = None) -> Self:
        """Return the guess with its interval, which always contains it."""
        made = super().__new__(cls, ratio)
        made.low = ratio if low is None else min(low, ratio)
        made.high = ratio if high is None else max(high, ratio)
        return made

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval; None without one."""
        return None if self.low == self.high else (self.low, self.high)

    @property
    def lifted(self) -> float:
        """The part of the response time that goes at the cautious end, 0 to 1."""
        return 1.0 - 1.0 / max(1.0, self.low)

    def with_model_error(self, measuring: float = 0.0) -> Prediction:
        """Return the prediction with ``MODEL_ERROR``, and the relative error of ``measuring`` what
        it takes away, added to its interval, as independent errors add up, on the log ratio.
        Without an interval it is arithmetic, and stays as it is."""
        if self.interval is None:
            return self
        error = math.hypot(MODEL_ERROR, measuring) * math.log(self)
        below = math.hypot(error, math.log(self / self.low))
        above = math.hypot(error, math.log(self.high / self))
        # With no error at all, rounding would make it narrower.
        low, high = self * math.exp(-below), self * math.exp(above)
        return Prediction(self, min(self.low, low), max(self.high, high))

    def limited(self, most: float) -> Prediction:
        """Return the prediction with neither guess nor end beyond ``most``."""
        return Prediction(min(self, most), min(self.low, most), min(self.high, most))


def prediction_of(ratio: float) -> Prediction:
    """Return a predicted ratio as a prediction, without an interval if it has none."""
    return ratio if isinstance(ratio, Prediction) else Prediction(ratio)


def rounded_interval(ratio: float) -> tuple[float, float] | None:
    """Return the interval of a predicted ratio as in run files and JSON; None without one."""
    interval = prediction_of(ratio).interval
    if interval is None:
        return None
    low, high = interval
    return numbers.rounded(low), numbers.rounded(high)


def between(cautious: Prediction, hopeful: Prediction) -> Prediction:
    """Return the prediction between two assumptions: the geometric mean of their guesses. What lies
    between these adds to what either leaves open as independent errors do, on the log ratio."""
    guess = math.sqrt(cautious * hopeful)
    apart = math.log(hopeful / cautious) / 2
    below = math.hypot(apart, math.log(cautious / cautious.low))
    above = math.hypot(apart, math.log(hopeful.high / hopeful))
    return Prediction(guess, guess * math.exp(-below), guess * math.exp(above))


def tolerated(predicted_ratio: float) -> tuple[float, float]:
    """Return the smallest and the largest measured ratio that a prediction covers."""
    ends = predicted_ratio ** (1 / TOLERANCE), predicted_ratio**TOLERANCE
    return min(ends), max(ends)


def as_predicted(
    effect: PairedEffect, predicted_ratio: float, effect_matters: float = EFFECT_MATTERS
) -> bool:
    """Return whether an effect is as predicted: its interval lies on the predicted side of 1, and
    its ratio is within the tolerance or its interval is precise and contains the prediction.

    Precise as in the plan of a trial (:func:`pgdyno.stats._plan.precise_half_width`): a wide
    interval contains almost any prediction. A prediction of no effect is never met, as no effect
    proves nothing.
    """
    same_side = effect.lo > 1 if predicted_ratio > 1 else effect.hi < 1
    low, high = tolerated(predicted_ratio)
    precise = effect.log_half_width <= precise_half_width(predicted_ratio, effect_matters)
    contained = precise and effect.lo <= predicted_ratio <= effect.hi
    near = low <= effect.ratio <= high or contained
    return predicted_ratio != 1 and same_side and near


def overlap(effect: PairedEffect, predicted_ratio: float) -> bool:
    """Return whether the interval of a prediction and that of the effect have a ratio in common;
    False without an interval of the prediction."""
    interval = prediction_of(predicted_ratio).interval
    if interval is None:
        return False
    low, high = interval
    return effect.lo <= high and low <= effect.hi


def tolerance_words(predicted_ratio: float) -> str:
    """Return the ratios that a prediction covers: ``1.22x to 2.25x``."""
    low, high = tolerated(predicted_ratio)
    return f"{numbers.ratio(low)} to {numbers.ratio(high)}"
