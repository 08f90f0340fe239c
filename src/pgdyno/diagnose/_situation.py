"""Input of the signatures: the facts of some slices, their latency budget and the fitted model."""

from __future__ import annotations

from functools import cached_property

from pgdyno.diagnose._facts import Facts
from pgdyno.diagnose._fit import fitted_loop
from pgdyno.diagnose._latency_budget import LatencyBudget, latency_budget
from pgdyno.diagnose._model import ClosedLoop


class Situation(Facts):
    """Facts of some slices, with the latency budget and the model fitted to both."""

    @cached_property
    def latency_budget(self) -> LatencyBudget:
        """The latency budget of the mean transaction."""
        return latency_budget(self)

    @cached_property
    def loop(self) -> ClosedLoop:
        """The model that predicts the effect of changes."""
        return fitted_loop(self, self.latency_budget)
