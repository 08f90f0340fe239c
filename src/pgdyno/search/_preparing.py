"""Before a search: the client group that is varied, tables for its clients, and the most clients,
connections of a pool, that are tried: by the cores, and by the connections that are free."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pgdyno.conduct import Session
from pgdyno.errors import UsageError
from pgdyno.record.facts import is_pooled
from pgdyno.search.slo import Limit
from pgdyno.server.sql_files import query
from pgdyno.spec import ClientGroup, Spec
from pgdyno.spec.workload import SCALE_DEFAULT_MAX

CLIENTS_DEFAULT_MIN = 64
CLIENTS_PER_CORE = 16
"""Clients beyond which throughput is rarely higher, per core of the server: with more of them,
sessions that wait for a device or for each other are the rule. ``-c`` tries more."""
SPARE_CONNECTIONS = 5
"""Connections that are left to others, and to pgdyno's own statements."""
ROOM = 3.0
"""By default, ratio of the limit of a percentile to the mean response time that the number of
clients leaves: the p99 of a queue is two to four times its mean."""
ROOM_OF_MEAN = 1.2
PERCENTILE_HIGH = 75.0


def chosen_group(spec: Spec, group: str | None) -> ClientGroup:
    """Return the group that is varied. Raises UsageError where it is not known, or cannot be."""
    active = [each for each in spec.clients if not each.idle]
    names = ", ".join(each.name for each in active)
    if group is None and len(active) > 1:
        raise UsageError(
            f"the spec has {len(active)} client groups, and one of them is varied: {names}",
            code="group-missing",
            hint=f"--group {active[0].name}; the others remain as they are",
        )
    chosen = next((each for each in active if group in (None, each.name)), None)
    if chosen is None:
        raise UsageError(
            f'--group {group}: the spec has no client group "{group}" that sends transactions',
            code="unknown-group",
            hint=f"its groups are {names}",
        )
    return chosen


def with_group(spec: Spec, chosen: ClientGroup, changed: ClientGroup) -> Spec:
    """Return the spec with a group as it is changed for the search."""
    groups = [changed if each is chosen else each for each in spec.clients]
    return spec.model_copy(update={"clients": groups})


def with_scale(spec: Spec, clients: int) -> Spec:
    """Return the spec with tables for so many clients, unless their scale is given."""
    if spec.workload.scale_given or spec.http is not None:
        return spec
    workload = spec.workload.model_copy(update={"scale": min(clients, SCALE_DEFAULT_MAX)})
    workload.model_fields_set.discard("scale")
    return spec.model_copy(update={"workload": workload})


def clients_default(cores: float | None = None) -> int:
    """Return the most clients that are tried by default; ``cores`` are this machine's."""
    cores = len(os.sched_getaffinity(0)) if cores is None else cores
    return max(CLIENTS_DEFAULT_MIN, round(CLIENTS_PER_CORE * cores))


def clients_limit(session: Session, group: ClientGroup, asked: int | None) -> tuple[int, str]:
    """Return the most clients of ``group`` that may be tried, and what limits them.

    Called before the load starts. Behind a pooler, its connections are not known here, and a web
    server has others to the server than its clients to it.
    """
    wanted = asked or clients_default(session.target.facts.get("cores"))
    own = f"-c {wanted:,}" if asked else f"the default for this server, {wanted:,} clients"
    if group.pool or is_pooled(session.target.facts) or session.spec.http is not None:
        return wanted, own
    free = free_connections(session, group.name)
    if free >= wanted:
        return wanted, own
    limit = session.target.facts["settings"]["max_connections"]
    return max(free, 1), f"{max(free, 1):,} connections are free of max_connections = {limit}"


def free_connections(session: Session, group: str) -> int:
    """Return the connections that are left for the clients of ``group``."""
    facts = session.target.facts
    settings = facts["settings"]
    with session.connect() as connection:
        row = connection.execute(query("search", "sessions")).fetchone()
    used = row[0] if row else 0
    kept = 0 if facts["superuser"] else int(settings.get("superuser_reserved_connections", 3))
    kept += 0 if facts["superuser"] else int(settings.get("reserved_connections", 0))
    others = sum(each.connections_max for each in session.spec.clients if each.name != group)
    return int(settings["max_connections"]) - kept - used - others - SPARE_CONNECTIONS


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
