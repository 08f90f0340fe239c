"""The rate of an open loop, changed in the running load by a factor.

A rate with a shape, which may have absolute rates, is a key of the load: changing it restarts the
load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pgdyno.dimension._dimension import Context, Dimension, Load, Need, Transition
from pgdyno.dimension._groups import group_titles, groups_of
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec


class Rate(Dimension):
    """``Change.rate``."""

    id = "rate"
    order = 100
    live = True

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Read ``clients.GROUP.arrival.rate``; without GROUP if there is a single group."""
        match key.split("."):
            case ["clients", "arrival", "rate"] if spec is not None:
                name = spec.clients[0].name
            case ["clients", name, "arrival", "rate"]:
                pass
            case _:
                return None
        group = next((each for each in (spec.clients if spec else ()) if each.name == name), None)
        arrival = group.open_loop if group is not None else None
        if arrival is None or arrival.shape is not None:
            return None
        return Change(rate={name: float(value) / arrival.rate})

    def enter(self, fields: Fields, change: Change) -> None:
        """Multiply the group's rate."""
        for name, factor in change.rate.items():
            arrival = groups_of(fields).get(name, {}).get("arrival")
            if isinstance(arrival, dict):
                arrival["rate"] *= factor

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``rate 200/s → 400/s``."""
        words = {}
        for name, factor in change.rate.items():
            arrival = groups_of(before).get(name, {}).get("arrival")
            words[name] = f"rate × {factor:g}"
            if isinstance(arrival, Mapping):
                was = arrival["rate"]
                words[name] = f"rate {was:g}/s → {was * factor:g}/s"
        return group_titles(words, before)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return RELOAD if the rates differ: the load continues."""
        return Need.NOTHING if transition.before.rate == transition.after.rate else Need.RELOAD

    def adjust_load(self, transition: Transition, load: Load) -> None:
        """Set the rate of every open loop, by default its initial one."""
        for group in transition.spec_after.clients:
            if group.open_loop:
                load.set_rate(group.name, transition.after.rate.get(group.name, 1.0))


DIMENSION = Rate()
