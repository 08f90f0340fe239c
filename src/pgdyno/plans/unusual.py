"""Settings that are not at their built-in value, as a session of the load has them.

Each that can matter for speed is a suspect: of the planner, memory, WAL, commits, checkpoints,
workers, logging, vacuum, libraries and developers, for all sessions or for a role or a database
alone. Whether one costs anything is measured afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, LiteralString

import psycopg

from pgdyno.plans._session import LoadLikeSession
from pgdyno.record import UnusualSetting
from pgdyno.server import ConnInfo
from pgdyno.server.connecting.control import names_of_catalog
from pgdyno.server.sql_files import query_at
from pgdyno.spec.change import Change

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

_BASE_UNIT = re.compile(r"(\d*)([A-Za-z]+)")
_MEMORY = ("B", "kB", "MB", "GB", "TB")
_TIME_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_FACTORS = {
    **{name: 1024**power for power, name in enumerate(_MEMORY)},
    **_TIME_MS,
}


def unusual_settings(
    conninfo: ConnInfo, setup: str | None, ours: Collection[str] = ()
) -> list[UnusualSetting]:
    """Ask which settings are not at their built-in value in a session for which ``setup`` is
    executed first, without ``ours``, which pgdyno has set.

    Raises SetupError or psycopg.Error if the server cannot be asked.
    """
    session = LoadLikeSession(conninfo, "simple", setup=setup)
    try:
        conn = session.connection
        with names_of_catalog(conn, keeps_jit=True):
            compiles = conn.execute(query_at(conn, "plans", "jit_setting")).fetchone()
        # What follows may take seconds where all queries are compiled.
        with names_of_catalog(conn):
            rows = conn.execute(query_at(conn, "plans", "unusual_settings")).fetchall()
            found = [*rows, *([compiles] if compiles else [])]
            return [_unusual(conn, *row) for row in sorted(found) if row[0] not in ours]
    finally:
        session.close()


def resets(unusual: Iterable[UnusualSetting]) -> Change:
    """Return the change that resets these settings."""
    return Change(settings={each.name: each.reset for each in unusual})


def _unusual(
    conn: Control,
    name: str,
    value: str,
    built_in: str | None,
    unit: str | None,
    source: str,
    needs_restart: bool,
    in_statements: bool,
    relied_on: bool,
) -> UnusualSetting:
    reset, may_set = with_unit(built_in or "", unit), False
    if in_statements:
        try:
            with conn.transaction(force_rollback=True):
                set_it: LiteralString = "select pg_catalog.set_config(%s, %s, true)"
                reset, may_set = _one(conn, set_it, (name, built_in or "")), True
        except psycopg.errors.Error:
            pass  # The role may not set it.
    return UnusualSetting(name, value, reset, may_set, source, needs_restart, relied_on)


def _one(conn: Control, sql: LiteralString, values: tuple[str | None, ...]) -> str:
    row = conn.execute(sql, values).fetchone()
    return "" if row is None or row[0] is None else str(row[0])


def with_unit(value: str, unit: str | None) -> str:
    """Return a number of pg_settings in the largest unit of which it is a multiple, as SHOW does;
    a special value, a number without a unit and a text as they are."""
    base = _BASE_UNIT.fullmatch(unit or "")
    if base is None or base[2] not in _FACTORS or not value.isdigit() or value == "0":
        return value
    number = int(value) * int(base[1] or 1) * _FACTORS[base[2]]
    names = _MEMORY if base[2] in _MEMORY else tuple(_TIME_MS)
    largest = next(name for name in reversed(names) if number % _FACTORS[name] == 0)
    return f"{number // _FACTORS[largest]}{largest}"
