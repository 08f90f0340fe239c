"""The most clients that are tried: by the cores, and by the connections that are free."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.conduct import Session
from pgdyno.record.facts import is_pooled
from pgdyno.spec import ClientGroup

CLIENTS_DEFAULT_MIN = 64
CLIENTS_PER_CORE = 16
"""Clients beyond which throughput is rarely higher, per core of the server: with more of them,
sessions that wait for a device or for each other are the rule. ``-c`` tries more."""
SPARE_CONNECTIONS = 5
"""Connections that are left to others, and to pgdyno's own statements."""
_SESSIONS = Path(__file__).with_name("sql") / "sessions.sql"


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
        row = connection.execute(_SESSIONS.read_bytes()).fetchone()
    used = row[0] if row else 0
    kept = 0 if facts["superuser"] else int(settings.get("superuser_reserved_connections", 3))
    kept += 0 if facts["superuser"] else int(settings.get("reserved_connections", 0))
    others = sum(each.connections_max for each in session.spec.clients if each.name != group)
    return int(settings["max_connections"]) - kept - used - others - SPARE_CONNECTIONS
