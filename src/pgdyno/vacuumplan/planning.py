"""Looking at a server's tables, and the plan that follows from the rates. Read-only, no load."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from pgdyno.check import Reached, Where, answering, reach, session
from pgdyno.errors import SetupError
from pgdyno.json_types import Row
from pgdyno.results.vacuum_plan import (
    PlannedOption,
    PlannedTable,
    UnplannedTable,
    VacuumPlanResult,
)
from pgdyno.server import ConnInfo
from pgdyno.server.sql_files import query_at
from pgdyno.server.versions import plain_version
from pgdyno.vacuumplan._advising import (
    CHANGES_MIN,
    AutovacuumSettings,
    TableRates,
    all_in_force,
    plan_table,
)
from pgdyno.vacuumplan._bursts import parts_of, seconds_to_tell, why_no_rate

if TYPE_CHECKING:
    import psycopg

_TABLES_MAX = 500
_SINCE_RESET_H_MIN = 2.0
"""Shorter periods are not representative of a load of hours (Senzing's experiments reset the
statistics and wait for two hours)."""
_WORKERS_BUSY_MAX = 0.5


class VacuumPlanRequest(Struct, frozen=True):
    """A plan, as the user wants it."""

    where: Where
    seconds: float = 60.0
    """Time between the first look and the last."""
    since_reset: bool = False
    """Rates since the statistics were reset, instead of several looks."""
    every_h: float = 2.0


class TableCounters(Struct, frozen=True):
    """The counters of all tables at a moment."""

    at_s: float
    next_xid: int
    database_age: int
    reset_s: float | None
    tables: Mapping[int, Row]


class VacuumPlan(Struct, frozen=True):
    """A plan, and the parameters in force that it is compared with."""

    result: VacuumPlanResult
    present: Mapping[str, Mapping[str, float]]
    """By table, the parameters that are in force now."""


def make_plan(
    request: VacuumPlanRequest,
    note: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> VacuumPlan:
    """Look once or several times, and return the plan.

    Raises SetupError if the server cannot be asked, is a standby, or has no statistics that a rate
    can be taken from.
    """
    reached = reach(request.where, note)
    if reached.facts.get("in_recovery"):
        raise SetupError(
            f"{reached.conninfo.uri_without_password} is a standby, where nothing is counted",
            code="vacuum-plan-standby",
            hint="name the primary",
        )
    with answering(reached.conninfo):
        first, settings = look(reached.conninfo)
        if request.since_reset:
            return _result(request, reached, [_since_reset(first), first], settings)
        note(f"watching the counters for {request.seconds:g} s")
        looks, parts = [first], parts_of(request.seconds)
        for _ in range(parts):
            pause(request.seconds / parts)
            looks.append(look(reached.conninfo)[0])
    if any(b.reset_s != a.reset_s or b.at_s <= a.at_s for a, b in pairwise(looks)):
        raise SetupError(
            "the statistics were reset between two looks, or the server's clock jumped back",
            code="vacuum-plan-reset",
            hint="run it again",
        )
    return _result(request, reached, looks, settings)


def _since_reset(now: TableCounters) -> TableCounters:
    """Return a look of zeros at the time of the reset. Raises SetupError if that is unknown or too
    young."""
    hours = None if now.reset_s is None else (now.at_s - now.reset_s) / 3600
    if hours is None or hours < _SINCE_RESET_H_MIN:
        what = "never reset" if hours is None else f"reset {hours:.1f} h ago"
        raise SetupError(
            f"--since-reset: the statistics of this database were {what}, so that rates since then"
            " are not known well enough",
            code="vacuum-plan-young",
            hint="leave --since-reset out: several looks, within -T; or SELECT pg_stat_reset(),"
            " then ANALYZE, as autovacuum forgets what it had counted until then and may be late"
            f" with what is necessary, and {_SINCE_RESET_H_MIN:g} hours of the usual load",
        )
    assert now.reset_s is not None
    return TableCounters(now.reset_s, now.next_xid, now.database_age, now.reset_s, {})


def look(conninfo: ConnInfo) -> tuple[TableCounters, dict[str, float]]:
    """Return the counters now, and the settings that a plan depends on."""
    with session(conninfo) as conn:
        moment = _rows(conn, "moment")[0]
        tables = {row["oid"]: row for row in _rows(conn, "tables", {"count": _TABLES_MAX})}
        sizes = _sizes(conn, list(tables))
        tables = {oid: {**row, "bytes": sizes.get(oid)} for oid, row in tables.items()}
        settings = {
            row["name"]: value
            for row in _rows(conn, "settings")
            if (value := _number(row["setting"])) is not None
        }
    moment.pop("in_recovery")
    return TableCounters(tables=tables, **moment), settings


def _sizes(conn: psycopg.Connection, oids: list[int]) -> dict[int, int]:
    """Return the bytes of tables, without those that are locked or dropped meanwhile."""
    from psycopg.errors import LockNotAvailable

    try:
        found = _rows(conn, "sizes", {"oids": oids})
    except LockNotAvailable:
        return {}
    return {row["oid"]: row["bytes"] for row in found if row["bytes"] is not None}


def _rows(conn: psycopg.Connection, name: str, values: Row | None = None) -> list[Row]:
    from psycopg.rows import dict_row

    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query_at(conn, "vacuumplan", name), values).fetchall()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return {"on": 1.0, "off": 0.0}.get(text)


def _result(
    request: VacuumPlanRequest,
    reached: Reached,
    looks: Sequence[TableCounters],
    settings: dict[str, float],
) -> VacuumPlan:
    conninfo = reached.conninfo
    before, now = looks[0], looks[-1]
    hours = (now.at_s - before.at_s) / 3600
    xids_h = None if request.since_reset else (now.next_xid - before.next_xid) / hours
    major = (conninfo.version or 0) // 10_000
    server = AutovacuumSettings(major, settings, request.every_h, xids_h)
    tables = [
        (_table(before, row, hours, settings), [each.tables.get(oid) for each in looks])
        for oid, row in now.tables.items()
    ]
    tables = sorted((each for each in tables if each[0].changes), key=lambda x: -x[0].changes)
    no_rates = [_no_rate(request, table, seen) for table, seen in tables]
    enough = [table for (table, _), why in zip(tables, no_rates, strict=True) if why is None]
    planned = tuple(plan_table(server, each, rank) for rank, each in enumerate(enough))
    freeze_max = server.value("autovacuum_freeze_max_age")
    left = None if not xids_h else max(0.0, freeze_max - now.database_age) / xids_h
    since: Literal["looks", "statistics reset"] = (
        "statistics reset" if request.since_reset else "looks"
    )
    result = VacuumPlanResult(
        schema_version=1,
        server=conninfo.uri_without_password,
        version=plain_version(str(reached.facts.get("version"))),
        database=conninfo.database,
        since=since,
        over_s=now.at_s - before.at_s,
        every_h=request.every_h,
        xids_h=xids_h,
        to_forced_vacuum_h=left,
        tables=planned,
        not_planned=tuple(
            UnplannedTable(relation=table.relation, why=why)
            for (table, _), why in zip(tables, no_rates, strict=True)
            if why is not None
        ),
        settings=tuple(_server_settings(server, planned)),
        warnings=tuple(_warnings(request, now, planned)),
        freeze_max_age=int(freeze_max),
        proof=None,
    )
    return VacuumPlan(result, {each.relation: all_in_force(server, each) for each in enough})


def _no_rate(
    request: VacuumPlanRequest, table: TableRates, seen: Sequence[Row | None]
) -> str | None:
    """Return why the changes of a table are no rate, or None."""
    if table.changes < CHANGES_MIN:
        return f"{table.changes:,} rows changed, less than {CHANGES_MIN:,}: too few for a rate"
    return None if request.since_reset else why_no_rate(seen)


def _table(
    before: TableCounters, row: Row, hours: float, settings: Mapping[str, float]
) -> TableRates:
    was = before.tables.get(row["oid"], {})
    # None are known before the first vacuum or analyze.
    pages = int(row["pages"] or (row["bytes"] or 0) / settings.get("block_size", 8192))

    def grown(name: str) -> int:
        return max(0, int(row[name] or 0) - int(was.get(name) or 0))

    return TableRates(
        relation=row["relation"],
        rows=max(float(row["rows"]), float(row["live"] or 0)),
        pages=pages,
        size_bytes=row["bytes"],
        hours=hours,
        inserted=grown("inserted"),
        updated=grown("updated"),
        hot=grown("hot"),
        newpage=None if row["newpage"] is None else grown("newpage"),
        deleted=grown("deleted"),
        xid_age=int(row["xid_age"]),
        options=dict(each.partition("=")[::2] for each in row["options"]),
        unfrozen=1.0 - min(1.0, row["frozen_pages"] / max(1, pages)),
    )


def _server_settings(
    server: AutovacuumSettings, planned: tuple[PlannedTable, ...]
) -> list[PlannedOption]:
    """Return settings of the server that the plan needs."""
    found = []
    if server.value("autovacuum") == 0 and "autovacuum" in server.settings:
        found.append(
            PlannedOption(name="autovacuum", value=1, present=0, reason="without it no plan works")
        )
    vacuums_h = sum(1 / each.planned_every_h for each in planned if each.planned_every_h)
    workers = server.value("autovacuum_max_workers")
    naptime_s = server.value("autovacuum_naptime")
    now_h = sum(1 / each.now_every_h for each in planned if each.now_every_h)
    # A database is visited once per naptime, by one worker.
    if vacuums_h > now_h and vacuums_h * naptime_s / 3600 > _WORKERS_BUSY_MAX * max(1.0, workers):
        reason = f"{vacuums_h:.0f} vacuums an hour for {workers:g} workers"
        reason += (
            "; a reload is enough, up to autovacuum_worker_slots"
            if server.major >= 18
            else "; takes effect after a restart"
        )
        wanted = min(16.0, 2 * max(1.0, workers))
        found.append(
            PlannedOption(name="autovacuum_max_workers", value=wanted, present=workers,
                          reason=reason)
        )  # fmt: skip
    return found


def _warnings(
    request: VacuumPlanRequest, now: TableCounters, planned: tuple[PlannedTable, ...]
) -> list[str]:
    said = []
    if len(now.tables) == _TABLES_MAX:
        said.append(f"only the {_TABLES_MAX} tables with the most changes were looked at")
    if request.since_reset:
        said.append(
            "a burst since the reset counts as a rate here: several looks (-T) distinguish them"
        )
    elif parts_of(request.seconds) == 1:
        said.append(
            f"{request.seconds:g} s are too short to distinguish a burst from a rate: watch for"
            f" {seconds_to_tell():g} s at least (-T)"
        )
    if not planned:
        said.append(
            "no table changed enough, or evenly enough, to be planned for: watch a time of the"
            " usual load (-T), or use --since-reset"
        )
    elif not request.since_reset and request.seconds < 600:
        said.append(
            f"these are the rates of {request.seconds:g} s: if the load varies over the day, watch"
            " longer (-T 1h), or use --since-reset after a usual day"
        )
    return said
