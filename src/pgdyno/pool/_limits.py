"""The sizes that are tried, and how many clients share the pool."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.conduct import Session
from pgdyno.search.connections import clients_default, free_connections
from pgdyno.search.slo import Limit

ROOM = 3.0
"""By default, ratio of the limit of a percentile to the mean response time that the number of
clients leaves: the p99 of a queue is two to four times its mean."""
ROOM_OF_MEAN = 1.2
PERCENTILE_HIGH = 75.0


def sizes_limit(session: Session, group: str, asked: int | None, pools: int = 1) -> tuple[int, str]:
    """Return the largest size that may be tried, and what limits it; ``pools``: as many pools have
    it, each with connections to the server."""
    spec = session.spec
    chosen = next(each for each in spec.clients if each.name == group)
    clients = -(-chosen.count // pools)
    wanted = asked or clients_default(session.target.facts["cores"])
    why = f"--pool-max {wanted:,}" if asked else f"{wanted:,} is the default for this server"
    if clients < wanted:
        wanted, why = clients, _clients_words(clients, pools)
    if session.target.facts["entrance_uri"]:
        return wanted, why
    free = max(free_connections(session, group), 1)
    if free >= pools * wanted:
        return wanted, why
    limit = session.target.facts["settings"]["max_connections"]
    each = f", for {pools:,} instances" if pools > 1 else ""
    return max(
        free // pools, 1
    ), f"{free:,} connections are free of max_connections = {limit}{each}"


def pools_limit(clients: int, asked: int | None, pools: int) -> tuple[int, str]:
    """Return the largest size of the pools of so many instances in front of a pooler, and what
    limits it."""
    each = -(-clients // pools)
    if asked is not None and asked < each:
        return asked, f"--pool-max {asked:,}"
    return each, _clients_words(each, pools)


def _clients_words(clients: int, pools: int) -> str:
    return f"there are {clients:,} clients{' in an instance' if pools > 1 else ''}"


def clients_within(limits: Sequence[Limit], tps: float, most: int) -> int:
    """Return with how many clients, up to ``most``, the limits have room for the response time that
    follows from their number (by Little's law, clients / throughput)."""
    rooms = (
        each.most_us / 1e6 / (ROOM if (each.percentile or 0) > PERCENTILE_HIGH else ROOM_OF_MEAN)
        for each in limits
    )
    return max(2, min(most, round(tps * min(rooms))))
