"""How many clients a group has, which the running load is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pgdyno.dimension._dimension import Dimension, Fields, Load, Need, Place, Step
from pgdyno.dimension._groups import groups_of, told
from pgdyno.spec import Change


class Clients(Dimension):
    """``Change.clients``."""

    id = "clients"
    order = 90
    live = True

    def enter(self, fields: Fields, change: Change) -> None:
        """As the group's count."""
        groups = groups_of(fields)
        for name, count in change.clients.items():
            if name in groups:
                groups[name]["count"] = count

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """``clients 8 → 16``."""
        groups = groups_of(before)
        words = {}
        for name, count in change.clients.items():
            was = groups.get(name, {}).get("count")
            words[name] = f"{count} clients" if was is None else f"clients {was} → {count}"
        return told(words, before)

    def needs(self, step: Step, place: Place) -> Need:
        """A word to the load."""
        return Need.NOTHING if step.start.clients == step.to.clients else Need.RELOAD

    def tell(self, step: Step, load: Load) -> None:
        """Those that the change says nothing of have what the spec says."""
        for group in step.wanted.clients:
            load.set_clients(group.name, step.to.clients.get(group.name, group.count))


DIMENSION = Clients()
