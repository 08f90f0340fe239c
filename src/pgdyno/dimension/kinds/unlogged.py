"""Whether the load's tables have WAL: rewritten as unlogged, or as logged again, without a load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pgdyno.dimension._dimension import KeyDimension, Need, Place, Step
from pgdyno.spec import Change

_KEY = "workload.unlogged"


class Unlogged(KeyDimension):
    """The key ``workload.unlogged``."""

    id = "unlogged tables"
    order = 60

    def owns(self, key: str) -> bool:
        """That one."""
        return key == _KEY

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """``unlogged tables``."""
        for value in self.mine(change).values():
            yield "unlogged tables" if value == "true" else "logged tables"

    def needs(self, step: Step, place: Place) -> Need:
        """The tables are rewritten."""
        same = step.was.workload.unlogged == step.wanted.workload.unlogged
        return super().needs(step, place) if same else Need.REWRITE

    def apply(self, step: Step, place: Place) -> None:
        """Of those that are made logged again, all that were made unlogged here."""
        from pgdyno.workload import make_logged, make_unlogged

        if step.was.workload.unlogged == step.wanted.workload.unlogged:
            return
        with place.connect() as connection:
            if step.wanted.workload.unlogged:
                place.remembered[self.id] = make_unlogged(connection)
            else:
                make_logged(connection, place.remembered.get(self.id))


DIMENSION = Unlogged()
