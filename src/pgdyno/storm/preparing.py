"""Before a storm: a spec whose clients arrive when the storm says, on a server that has room."""

from __future__ import annotations

import resource

from pgdyno.conduct import check_open_files
from pgdyno.errors import UsageError
from pgdyno.search.group import chosen_group, with_scale
from pgdyno.spec import ClientGroup, Connection, Spec
from pgdyno.storm._shapes import SHAPES

DIRECT_MAX = 1_000
POOLED_MAX = 10_000
THINK_MS = 5_000
"""Pause of each client after a transaction: a storm is about arrival."""
SCALE_CLIENTS = 10
"""Clients by which tables are scaled: only few of them execute a transaction at a time."""
SPARE_CONNECTIONS = 20
ROOM = 1.25
"""Ratio of max_connections to the clients: sessions of the storm before may still be ending."""
IDLE_GROUP = "leak"
BUDGET_MIN_S = 20
AT_ONCE_MS = 1


def check_budget(budget_ms: int) -> None:
    """Raise UsageError for a budget that is too short."""
    if budget_ms < 1000 * BUDGET_MIN_S:
        raise UsageError(
            f"--budget {budget_ms / 1000:g}s: a search for storms needs at least {BUDGET_MIN_S} s",
            code="storm-budget",
        )


def clients_most(spec: Spec, asked: int | None) -> int:
    """Return the most clients of a storm."""
    pooled = spec.pooler.in_use or spec.server.control is not None
    return asked or (POOLED_MAX if pooled else DIRECT_MAX)


def prepared_spec(
    spec: Spec, *, shape: str, group: str | None, clients_max: int, connecting_max: int | None
) -> tuple[Spec, str]:
    """Return the spec under which storms are made, and the group that they are of. Raises
    UsageError where no group, or no such group, can arrive, SetupError for too few open files."""
    chosen = chosen_group(spec, group)
    if chosen.open_loop or chosen.reconnect_every:
        raise UsageError(
            f"the clients of {chosen.name} "
            + ("send at a rate" if chosen.open_loop else "make new connections all the time")
            + ", and those of a storm connect and stay",
            code="contradiction",
            hint="remove arrival or connection from the group",
        )
    _raise_open_files(clients_max)
    spec = spec.model_copy(
        update={
            "clients": _groups(spec, chosen, shape),
            "load": _load(spec, shape, connecting_max or clients_max),
            "server": _server(spec, clients_max),
            "pooler": _pooler(spec, clients_max),
        }
    )
    return with_scale(spec, SCALE_CLIENTS), IDLE_GROUP if SHAPES[shape].idle else chosen.name


def _groups(spec: Spec, chosen: ClientGroup, shape: str) -> list[ClientGroup]:
    """Return the groups, of which the one of the storm begins with one client."""
    if SHAPES[shape].idle:
        return [*spec.clients, ClientGroup(name=IDLE_GROUP, count=1, idle=True)]
    think_ms = chosen.think_ms or THINK_MS
    first = chosen.model_copy(update={"count": 1, "think_ms": think_ms})
    if SHAPES[shape].at_once_again:
        at_once = Connection.model_validate({"slow_start": False})
        first = first.model_copy(update={"connection": at_once})
    return [first if each is chosen else each for each in spec.clients]


def _load(spec: Spec, shape: str, connecting_max: int) -> object:
    changed: dict[str, object] = {"connecting_max": connecting_max}
    if SHAPES[shape].at_once_again:
        changed |= {"backoff_min_ms": AT_ONCE_MS, "backoff_max_ms": AT_ONCE_MS}
    return spec.load.model_copy(update=changed)


def _server(spec: Spec, clients_max: int) -> object:
    """Return the server with room for all clients, unless the user says how many it lets in."""
    given = spec.server.settings
    if spec.server.kind != "embedded" or spec.pooler.in_use or "max_connections" in given:
        return spec.server
    others = sum(each.connections_max for each in spec.clients)
    room = str(round(ROOM * clients_max) + others + SPARE_CONNECTIONS)
    return spec.server.model_copy(update={"settings": {**given, "max_connections": room}})


def _pooler(spec: Spec, clients_max: int) -> object:
    given = spec.pooler.settings
    if spec.pooler.kind != "pgbouncer" or "max_client_conn" in given:
        return spec.pooler
    room = str(round(ROOM * clients_max) + SPARE_CONNECTIONS)
    return spec.pooler.model_copy(update={"settings": {**given, "max_client_conn": room}})


def _raise_open_files(clients_max: int) -> None:
    """Let this process, and a pooler that it starts, have as many open files as they may."""
    check_open_files(clients_max)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
