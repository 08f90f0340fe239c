"""The size of client pools, changed in the running load."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.dimension._dimension import Context, Dimension, Load, Need, Transition
from pgdyno.dimension._groups import group_titles, groups_of
from pgdyno.json_types import Fields
from pgdyno.spec import Change


class PoolSize(Dimension):
    """``Change.pool_max``."""

    id = "pool"
    order = 80
    live = True

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the pool of each instance of the group; ``None`` removes it."""
        groups = groups_of(fields)
        for name, size in change.pool_max.items():
            if name not in groups:
                continue
            if size is None:
                groups[name].pop("pool", None)
                groups[name].pop("instances", None)
            else:
                groups[name]["pool"] = {**(groups[name].get("pool") or {}), "max": size}

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``pool 2 → 16``."""
        groups = groups_of(before)
        words = {}
        for name, size in change.pool_max.items():
            words[name] = "no pool" if size is None else f"pool {size}"
            if name in groups:
                was = (groups[name].get("pool") or {}).get("max")
                words[name] = f"pool {was or 'none'} → {size or 'none'}"
        return group_titles(words, before)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return RELOAD if the pools differ: the load continues."""
        return (
            Need.NOTHING if transition.before.pool_max == transition.after.pool_max else Need.RELOAD
        )

    def adjust_load(self, transition: Transition, load: Load) -> None:
        """Set the pool of every group, by default that of the spec."""
        for group in transition.spec_after.clients:
            said = group.pool.max if group.pool else None
            load.set_pool_max(group.name, transition.after.pool_max.get(group.name, said))


DIMENSION = PoolSize()
