"""Connections that a load is expected to keep open, by the fields of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class KeptConnections(NamedTuple):
    """Connections that the clients of a group, or their pool, keep open."""

    pool_max: int | None
    """Size of the pool; None: one connection for each client."""
    fixed: bool
    """False if a pool opens them when needed, or clients start and end during the load."""

    def expected(self, clients: int) -> int:
        """Return the number of connections of ``clients`` running clients."""
        return clients if self.pool_max is None else min(clients, self.pool_max)


def kept_connections(fields: Mapping[str, Any]) -> dict[str, KeptConnections]:
    """Return client group → its connections, without groups whose clients reconnect regularly.

    ``fields`` are those of a recorded spec, which may be of an older version.
    """
    load = fields.get("load") or {}
    clients_vary = bool(load.get("transactions") or load.get("steps"))
    kept = {}
    for group in fields.get("clients") or []:
        if not _reconnects(group.get("connection")):
            pool_max = (group.get("pool") or {}).get("max") or None
            fixed = pool_max is None and not clients_vary
            kept[group["name"]] = KeptConnections(pool_max, fixed)
    return kept


def _reconnects(policy: Any) -> bool:
    if isinstance(policy, Mapping):
        return policy.get("reconnect_every") is not None
    return policy not in (None, "persistent")
