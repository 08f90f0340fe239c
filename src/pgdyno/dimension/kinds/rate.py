"""The rate of an open loop, which the running load is told as a factor.

A rate with a shape, some of whose rates are its own, is a key of the load, which starts afresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pgdyno.dimension._dimension import Dimension, Fields, Load, Need, Place, Step
from pgdyno.dimension._groups import groups_of, told
from pgdyno.spec import Change, Spec


class Rate(Dimension):
    """``Change.rate``."""

    id = "rate"
    order = 100
    live = True

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """``clients.GROUP.arrival.rate``, of which a single group's name may be left out."""
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
        """As the group's rate."""
        for name, factor in change.rate.items():
            arrival = groups_of(fields).get(name, {}).get("arrival")
            if isinstance(arrival, dict):
                arrival["rate"] *= factor

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """``rate 200/s → 400/s``."""
        words = {}
        for name, factor in change.rate.items():
            arrival = groups_of(before).get(name, {}).get("arrival")
            words[name] = f"rate × {factor:g}"
            if isinstance(arrival, Mapping):
                was = arrival["rate"]
                words[name] = f"rate {was:g}/s → {was * factor:g}/s"
        return told(words, before)

    def needs(self, step: Step, place: Place) -> Need:
        """A word to the load."""
        return Need.NOTHING if step.start.rate == step.to.rate else Need.RELOAD

    def tell(self, step: Step, load: Load) -> None:
        """Those that the change says nothing of have what the load began with."""
        for group in step.wanted.clients:
            if group.open_loop:
                load.set_rate(group.name, step.to.rate.get(group.name, 1.0))


DIMENSION = Rate()
