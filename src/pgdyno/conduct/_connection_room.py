"""Check, before a load begins, whether the connections of all layers fit: those of the
application's pools, of the pooler, and of the server.

What cannot ever fit is refused. What fits only once others disconnect is a warning, as they may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.pooler import server_connections
from pgdyno.record.facts import PoolerPairs, ServerFacts
from pgdyno.server import ConnInfo, connect
from pgdyno.server.connecting.exclusive_use import SESSIONS
from pgdyno.server.sql_files import query
from pgdyno.spec import Spec
from pgdyno.spec.pooler import TITLES

# Probes, control, a statement of an event, the lock on the tables, and the lock against other runs
# of pgdyno.
_OWN_SESSIONS = 5 + SESSIONS
_GROUPS_MAX = 4
_MENDED_BY_FRONT = "use a smaller pool (front.max_total), or raise max_connections"


class Room(Struct, frozen=True):
    """The connections that the layers need and have."""

    by_group: Mapping[str, int]
    """Of the clients, or the pools of the application."""
    products: Mapping[str, str]
    """By group with several instances, how many there are times the size of each pool."""
    pooler: str | None
    """The pooler in front of the server."""
    pooled: int
    """The most connections that it makes."""
    limit: int
    """max_connections."""
    kept: int
    """Of these for pgdyno and, unless the role may use them, reserved."""
    others: int
    """Of these in use by others now."""

    @property
    def needed(self) -> int:
        """The most connections that the load makes to the server."""
        clients = sum(self.by_group.values())
        return clients if self.pooler is None else min(clients, self.pooled)

    @property
    def free(self) -> int:
        """Connections of the server that are left for the load at best."""
        return max(0, self.limit - self.kept)

    @property
    def demand(self) -> str:
        """The sum over the layers, in words: the connections that each needs."""
        clients = sum(self.by_group.values())
        largest = sorted(self.by_group.items(), key=lambda item: -item[1])
        parts = [
            f"{name} {self.products.get(name, count)}" for name, count in largest[:_GROUPS_MAX]
        ]
        if rest := sum(count for _, count in largest[_GROUPS_MAX:]):
            parts.append(f"others {rest}")
        listed = f" ({' + '.join(parts)})" if len(parts) > 1 or self.products else ""
        if self.pooler is not None:
            return (
                f"{self.pooler} may make {self.needed} connections for the clients'"
                f" {clients}{listed}"
            )
        return f"the clients need {clients} connections{listed}"

    @property
    def sum_in_words(self) -> str:
        """The connections of the server, and those that are taken."""
        return (
            f"max_connections = {self.limit}, minus {self.kept} for probes and reserved connections"
        )


def check_connections(spec: Spec, facts: ServerFacts, conninfo: ConnInfo) -> str | None:
    """Return a warning about connections that fit only when others disconnect.

    Raises SetupError for more connections than the server has.
    """
    room = _room(spec, facts, conninfo)
    if room.needed > room.free:
        raise SetupError(
            f"{room.demand}, and the server has {room.free} for them: {room.sum_in_words}",
            code="too-many-connections",
            hint=_MENDED_BY_FRONT
            if spec.front is not None
            else "give the pooler a smaller pool, or raise max_connections"
            if room.pooler is not None
            else "use fewer clients (-c) or instances, or a shared pool (--pool-max), or raise"
            " max_connections",
        )
    left = room.free - room.others
    if room.needed <= left:
        return None
    return (
        f"{room.demand}, and {max(0, left)} are free: {room.sum_in_words} and {room.others} in use"
        " by others; unless these disconnect, clients are refused"
    )


def pooler_pairs(facts: ServerFacts, entrance: ConnInfo) -> PoolerPairs | None:
    """Return the pools of the user's PgBouncer against the connections that the server has for
    them; None if it does not tell."""
    from pgdyno.pooler.pairs import pairs_of

    pairs = pairs_of(entrance)
    if pairs is None:
        return None
    free = int(facts["settings"]["max_connections"]) - _reserved(facts["settings"])
    return {"count": pairs.count, "connections": pairs.connections, "free": free}


def pairs_warning(pairs: PoolerPairs | None) -> str | None:
    """Return a warning if the pools of all pairs may make more connections than the server has."""
    if pairs is None or pairs["connections"] <= pairs["free"]:
        return None
    return (
        f"PgBouncer keeps a pool for each pair of user and database: {pairs['count']} pairs may"
        f" make {pairs['connections']} connections together, and the server has {pairs['free']} for"
        " them (max_connections, minus reserved ones): it refuses the others with too many"
        " clients. default_pool_size is of one pair; max_db_connections and max_user_connections"
        " limit all of a database or a user"
    )


def _reserved(settings: Mapping[str, str]) -> int:
    reserved = int(settings.get("reserved_connections", 0))
    return reserved + int(settings.get("superuser_reserved_connections", 3))


def _room(spec: Spec, facts: ServerFacts, conninfo: ConnInfo) -> Room:
    settings = facts["settings"]
    reserved = _reserved(settings)
    pooler = spec.pooler if spec.pooler.in_use else None
    return Room(
        by_group=_by_group(spec),
        products=dict(_products(spec)),
        pooler=None if pooler is None else TITLES[pooler.kind],
        pooled=0 if pooler is None else server_connections(spec),
        limit=int(settings["max_connections"]),
        kept=_OWN_SESSIONS + (0 if facts["superuser"] else reserved),
        others=_sessions_of_others(conninfo) if facts["kind"] == "existing" else 0,
    )


def _by_group(spec: Spec) -> dict[str, int]:
    """Return the connections to the server by what makes them; none of clients that send requests,
    whose web server makes them."""
    if spec.front is not None:
        return {"front": spec.front.connections_max}
    if spec.http is not None:
        return {}
    return {group.name: group.connections_max for group in spec.clients}


def _products(spec: Spec) -> Iterator[tuple[str, str]]:
    for group in spec.clients:
        if group.pool is not None and group.instances > 1:
            words = f"{group.instances} × {group.pool.max}"
            whole = group.instances * group.pool.max == group.connections_max
            yield group.name, words if whole else f"{group.connections_max} of {words}"


def _sessions_of_others(conninfo: ConnInfo) -> int:
    with connect(conninfo) as conn:
        row = conn.execute(query("conduct", "sessions_of_others")).fetchone()
    assert row is not None
    return int(row[0])
