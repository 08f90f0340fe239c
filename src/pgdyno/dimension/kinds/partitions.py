"""Partitions of the large tables of entity-resolution, which are copied while no load runs."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.errors import SetupError, UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec

_KEY = "workload.init.partitions"
_WORKLOAD = "entity-resolution"


class Partitions(KeyDimension):
    """The key ``workload.init.partitions``, on a server that pgdyno started."""

    id = "partitions"
    order = 22
    keys = _KEY

    def owns(self, key: str) -> bool:
        """True if it is the key of this dimension."""
        return key == _KEY

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Read the key. Raises UsageError for another workload than entity-resolution."""
        if self.owns(key) and spec is not None and not spec.runs(_WORKLOAD):
            raise UsageError(
                f"{_KEY} can differ between two sides only with the workload {_WORKLOAD}",
                code="fixed-partitions",
                hint=f"pgdyno compare {_WORKLOAD} --vary {_KEY}=8",
            )
        return super().read(key, value, spec)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``8 partitions``."""
        for value in self.mine(change).values():
            yield "no partitions" if value == "0" else f"{value} partitions"

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Refuse to copy the tables of a server that pgdyno did not start."""
        if self.mine(change) and not context.server.ours:
            raise SetupError(
                f"{_KEY} cannot differ between two sides on an existing server, whose tables would"
                " have to be copied",
                code="partitions-of-others",
                hint="compare on a server started by pgdyno: name no database",
            )

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return REWRITE if the numbers differ."""
        return Need.NOTHING if _same(transition) else Need.REWRITE

    def apply(self, transition: Transition, context: Context) -> None:
        """Copy the tables into others, with all rows that the load has inserted."""
        from pgdyno.workload import repartition

        if _same(transition):
            return
        with context.connect() as connection:
            repartition(connection, transition.spec_after.workload)


DIMENSION = Partitions()


def _same(transition: Transition) -> bool:
    before, after = transition.spec_before.workload, transition.spec_after.workload
    return before.init.partitions == after.init.partitions
