"""Connections that a load is expected to keep open, by the fields of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pgdyno.json_types import Fields


def clients_of_instances(clients: int, instances: int) -> list[int]:
    """Return how many clients each instance of the application has: they take turns."""
    return [clients // instances + (number < clients % instances) for number in range(instances)]


def pooled_connections(
    clients: int, pool_max: int, instances: int = 1, *, min_idle: int = 0
) -> int:
    """Return the most connections of pools: one for each client of an instance and those that are
    to be idle, up to its limit."""
    each = clients_of_instances(clients, instances)
    return sum(min(mine + min_idle, pool_max) for mine in each)


class KeptConnections(NamedTuple):
    """Connections that the clients of a group, or their pools, keep open."""

    pool_max: int | None
    """Size of each pool; None: one connection for each client."""
    fixed: bool
    """False if a pool opens them when needed, or clients start and end during the load."""
    instances: int = 1
    """Number of pools."""

    def expected(self, clients: int) -> int:
        """Return the number of connections of ``clients`` running clients."""
        if self.pool_max is None:
            return clients
        return pooled_connections(clients, self.pool_max, self.instances)


def kept_connections(fields: Fields) -> dict[str, KeptConnections]:
    """Return client group → its connections, without groups whose clients reconnect regularly,
    as those do that send requests. ``fields`` are those of a recorded spec."""
    if fields.get("http"):
        return {}  # A web server may close a connection after any response.
    load = fields.get("load") or {}
    varies = load.get("transactions"), load.get("steps"), fields.get("govern")
    clients_vary = any(varies)
    kept = {}
    for group in fields.get("clients") or []:
        if not _reconnects(group.get("connection")):
            pool_max = (group.get("pool") or {}).get("max") or None
            fixed = pool_max is None and not clients_vary
            kept[group["name"]] = KeptConnections(pool_max, fixed, group.get("instances", 1))
    return kept


def clients_stay(fields: Fields) -> bool:
    """Return whether all clients remain connected from beginning to end: neither they nor their
    pools make new connections. ``fields`` as above."""
    groups = fields.get("clients") or []
    return all(
        not _reconnects(g.get("connection")) and not _replaces(g.get("pool")) for g in groups
    )


def _replaces(pool: Fields | None) -> bool:
    return bool(pool and (pool.get("max_lifetime") or pool.get("idle_timeout")))


def _reconnects(policy: Any) -> bool:
    if isinstance(policy, Mapping):
        return policy.get("reconnect_every") is not None
    return policy not in (None, "persistent")
