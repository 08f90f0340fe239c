"""The pools of a PgBouncer that runs already, one for each pair of user and database, and the queue
of the load's own.

Its console is open to some roles only (admin_users, stats_users); others are told nothing. One of
admin_users may have it connect to the server again.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.json_types import Row
from pgdyno.pooler.kinds.pgbouncer import KIND, ask_console, queue_row
from pgdyno.server import ConnInfo
from pgdyno.spec.sql_text import quoted


class Pairs(Struct, frozen=True):
    """The pairs of user and database that have a pool now."""

    count: int
    connections: int
    """The most connections to the server that their pools make together."""


def pairs_of(entrance: ConnInfo) -> Pairs | None:
    """Return the pools of the PgBouncer at ``entrance``; None if it is none, or does not tell."""
    import psycopg

    try:
        pools, databases, config = ask_console(
            entrance, "show pools", "show databases", "show config"
        )
        reserve = next(int(row["value"]) for row in config if row["key"] == "reserve_pool_size")
        by_name = {row["name"]: row for row in databases}
        used: dict[str, int] = {}
        for pool in pools:
            name = pool["database"]
            if name != KIND.name and name in by_name:
                used[name] = used.get(name, 0) + _size(by_name[name], reserve)
    except (psycopg.Error, KeyError, ValueError, StopIteration):
        return None
    count = sum(pool["database"] in used for pool in pools)
    return Pairs(count, sum(_limited(by_name[name], size) for name, size in used.items()))


def own_queue(entrance: ConnInfo) -> list[Row]:
    """Return the queue of the load's pool at ``entrance``, as a row of metric_pooler; none while it
    has no pool. Raises psycopg.Error if the console does not answer.

    SHOW STATS counts databases, not users: the time waited may be that of others, and is left out.
    """
    (pools,) = ask_console(entrance, "show pools")
    pair = (entrance.database, entrance.user)
    own = [row for row in pools if (row["database"], row["user"]) == pair]
    return [queue_row(entrance.database, own, {})] if own else []


def reconnect(entrance: ConnInfo) -> bool:
    """Have the PgBouncer at ``entrance`` make its sessions in the load's database again, each as
    soon as its client gives it back; False if it is none, or the role is not of admin_users."""
    import psycopg

    try:
        ask_console(entrance, f"reconnect {quoted(entrance.database)}")
    except psycopg.Error:
        return False
    return True


def _size(database: Row, reserve: int) -> int:
    own = database.get("reserve_pool")
    return int(database["pool_size"]) + (reserve if own is None else int(own))


def _limited(database: Row, size: int) -> int:
    most = int(database.get("max_connections") or 0)
    return min(size, most) if most else size
