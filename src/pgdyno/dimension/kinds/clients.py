"""The number of clients of a group, changed in the running load."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._dimension import Context, Dimension, Load, Need, Transition
from pgdyno.dimension._groups import group_titles, groups_of
from pgdyno.json_types import Fields
from pgdyno.spec import Change


class Clients(Dimension):
    """``Change.clients``."""

    id = "clients"
    order = 90
    live = True

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the group's count."""
        groups = groups_of(fields)
        for name, count in change.clients.items():
            if name in groups:
                groups[name]["count"] = count

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``clients 8 → 16``."""
        groups = groups_of(before)
        words = {}
        for name, count in change.clients.items():
            was = groups.get(name, {}).get("count")
            words[name] = f"{count} clients" if was is None else f"clients {was} → {count}"
        return group_titles(words, before)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return RELOAD if the clients differ: the load continues."""
        return (
            Need.NOTHING if transition.before.clients == transition.after.clients else Need.RELOAD
        )

    def adjust_load(self, transition: Transition, load: Load) -> None:
        """Set the clients of every group, by default those of the spec."""
        for group in transition.spec_after.clients:
            load.set_clients(group.name, transition.after.clients.get(group.name, group.count))


DIMENSION = Clients()
