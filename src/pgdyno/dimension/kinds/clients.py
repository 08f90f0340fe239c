"""Clients of the load: their number, rate and pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pgdyno.dimension._dimension import Context, Dimension, KeyDimension, Load, Need, Transition
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec


class Clients(Dimension):
    """The number of clients of a group, changed in the running load. ``Change.clients``."""

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


CLIENTS = Clients()


class RateDimension(Dimension):
    """The rate of an open loop, changed in the running load by a factor.

    A rate with a shape, which may have absolute rates, is a key of the load: changing it restarts
    the load. ``Change.rate``.
    """

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


RATE = RateDimension()


class PoolSize(Dimension):
    """The size of client pools, changed in the running load. ``Change.pool_max``."""

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


POOL = PoolSize()


_TABLES = ("load", "workload", "clients")
_FIXED = {"load.ramp", "load.hold", "load.steps", "workload.scale"}
_FIXED_TABLES = {
    "workload.init",
    "workload.setup",
    "workload.setup_text",
    "workload.setup_sha256",
    "workload.vacuum",
    "workload.initialize",
    "workload.table_options",
    "workload.indexes",
}


class LoadKeys(KeyDimension):
    """All other keys of the load, its workload and its clients: a change restarts the load.

    Properties of the whole run (its length, its tables) cannot differ between its slices. The keys
    ``load.…``, ``workload.…`` and ``clients.GROUP.…`` of no other dimension.
    """

    id = "load"
    order = 200
    keys = "load.*, workload.*, clients.GROUP.*"

    def owns(self, key: str) -> bool:
        """True if it is a variable key of the load and of no other dimension."""
        from pgdyno.dimension._dimension import dimensions

        parts = key.split(".")
        of_load = parts[0] in _TABLES and len(parts) > 1 and key not in _FIXED
        if not of_load or ".".join(parts[:2]) in _FIXED_TABLES:
            return False
        return not any(each.owns(key) for each in dimensions() if each is not self)


LOAD_KEYS = LoadKeys()


class GovernorDimension(KeyDimension):
    """The governor of a run: only chapters of a story that are runs differ in it. The keys
    ``govern.…``."""

    id = "govern"
    order = 190
    keys = ""  # No comparison or investigation takes it.

    def owns(self, key: str) -> bool:
        """Return whether it is a key of this dimension."""
        return key.startswith("govern.")

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Refuse slices that differ in it: a governor remembers what it has decided."""
        if self.mine(change):
            raise UsageError(
                "the slices of a trial cannot differ in their governor, whose pauses last as long"
                " as the age of the server says",
                code="govern-in-trial",
                hint="use chapters of a story that are runs, as scenarios/wraparound-day.toml does",
            )


GOVERNOR = GovernorDimension()


def groups_of(fields: Fields | None) -> dict[str, Fields]:
    """Return the fields of each client group by its name; empty for unknown fields."""
    return {group["name"]: group for group in (fields or {}).get("clients", [])}


def group_titles(words: Mapping[str, str], before: Fields | None) -> Iterator[str]:
    """Yield the title of each group with its name, or a single title that all groups share."""
    all_of_them = words.keys() >= groups_of(before).keys()
    if all_of_them and len({*words.values()}) == 1:
        yield next(iter(words.values()))
    else:
        yield from (f"{group}: {said}" for group, said in words.items())
