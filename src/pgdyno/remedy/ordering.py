"""The order of remedies, to try them and to list them: by predicted gain, and what may lose less
before what may lose more, unless that certainly gains more."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pgdyno.spec.durability import AssessedClass, severity
from pgdyno.stats.prediction import Prediction


class Promise(Struct, frozen=True):
    """The predicted gain of a proposal, and its risk."""

    finding: str
    """The finding that proposes it."""
    guards: bool
    """True if it prevents a fault: such remedies come first."""
    prediction: Prediction
    durability_class: AssessedClass

    def place(self, others: Iterable[Promise]) -> tuple[bool, float, int, float]:
        """Return its place among all ``others``, a larger one further to the front.

        It stands behind what may lose less, if that is for the same finding, or if the predicted
        intervals do not show that it gains less. That does not move up for it.
        """
        lost = severity(self.durability_class)
        safer = [
            float(each.prediction)
            for each in others
            if each.guards == self.guards
            and severity(each.durability_class) < lost
            and (each.finding == self.finding or each.prediction.high >= self.prediction.low)
        ]
        gain = float(self.prediction)
        return self.guards, min([gain, *safer]), -lost, gain
