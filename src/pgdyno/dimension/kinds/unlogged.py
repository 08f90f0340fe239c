"""Unlogged tables: the load's tables are rewritten as unlogged or logged while no load runs."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.json_types import Fields
from pgdyno.spec import Change

_KEY = "workload.unlogged"


class Unlogged(KeyDimension):
    """The key ``workload.unlogged``."""

    id = "unlogged tables"
    order = 60

    def owns(self, key: str) -> bool:
        """True if it is the key of this dimension."""
        return key == _KEY

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``unlogged tables``."""
        for value in self.mine(change).values():
            yield "unlogged tables" if value == "true" else "logged tables"

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if the tables must be rewritten."""
        same = transition.spec_before.workload.unlogged == transition.spec_after.workload.unlogged
        return super().needs(transition, context) if same else Need.REWRITE

    def apply(self, transition: Transition, context: Context) -> None:
        """Make the tables unlogged, or make those logged that were made unlogged here."""
        from pgdyno.workload import make_logged, make_unlogged

        if transition.spec_before.workload.unlogged == transition.spec_after.workload.unlogged:
            return
        with context.connect() as connection:
            if transition.spec_after.workload.unlogged:
                context.remembered[self.id] = make_unlogged(connection)
            else:
                make_logged(connection, context.remembered.get(self.id))


DIMENSION = Unlogged()
