"""The size of client pools, which the running load is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pgdyno.dimension._dimension import Dimension, Fields, Load, Need, Place, Step
from pgdyno.dimension._groups import groups_of, told
from pgdyno.spec import Change


class PoolSize(Dimension):
    """``Change.pool_max``."""

    id = "pool"
    order = 80
    live = True

    def enter(self, fields: Fields, change: Change) -> None:
        """As the group's pool; ``None`` takes it away."""
        groups = groups_of(fields)
        for name, size in change.pool_max.items():
            if name not in groups:
                continue
            if size is None:
                groups[name].pop("pool", None)
            else:
                groups[name]["pool"] = {**(groups[name].get("pool") or {}), "max": size}

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """``pool 2 → 16``."""
        groups = groups_of(before)
        words = {}
        for name, size in change.pool_max.items():
            words[name] = "no pool" if size is None else f"pool {size}"
            if name in groups:
                was = (groups[name].get("pool") or {}).get("max")
                words[name] = f"pool {was or 'none'} → {size or 'none'}"
        return told(words, before)

    def needs(self, step: Step, place: Place) -> Need:
        """A word to the load."""
        return Need.NOTHING if step.start.pool_max == step.to.pool_max else Need.RELOAD

    def tell(self, step: Step, load: Load) -> None:
        """Those that the change says nothing of have what the spec says."""
        for group in step.wanted.clients:
            said = group.pool.max if group.pool else None
            load.set_pool_max(group.name, step.to.pool_max.get(group.name, said))


DIMENSION = PoolSize()
