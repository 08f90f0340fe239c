"""Everything the signatures look at: the facts of some slices, and what they come to together."""

from __future__ import annotations

from functools import cached_property

from pgdyno.diagnose._budget import LatencyBudget, latency_budget
from pgdyno.diagnose._fit import fitted_loop
from pgdyno.diagnose._model import ClosedLoop
from pgdyno.diagnose.facts.slices import Facts


class Situation(Facts):
    """The facts, where the time went, and the model fitted to both."""

    @cached_property
    def budget(self) -> LatencyBudget:
        """The latency budget of the mean transaction."""
        return latency_budget(self)

    @cached_property
    def loop(self) -> ClosedLoop:
        """The model that predicts what changes would do."""
        return fitted_loop(self, self.budget)

    @property
    def queueing(self) -> float:
        """Connections of the clients that have a core or wait for one, on average, by the budget;
        more than ``runnable`` where those count that are seen idle in the queue."""
        return max(self.runnable, self.in_service * self.budget.service_share("running", "ready"))
