"""Loads with the counters that vacuum, transaction IDs and kept WAL are diagnosed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diagnose_runs import Load

DATABASE = "shop"
MB = 1 << 20
XIDS_S = 1000
WAL_S = 4 * MB


def pages(first: float, last: float, tps: float = 1000.0) -> Any:
    """Rows of metric_database: page accesses per transaction go from ``first`` to ``last``."""

    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        hits = sum(tps * (first + (last - first) * second / 9) for second in range(edge))
        return [{"blks_hit": round(hits), "blks_read": 0, "xact_commit": round(tps * edge)}]

    return rows


def ages(holder: Mapping[str, Any] | None, *, xid_age: int = 5000, xmin_age: int = 0) -> Any:
    """Rows of metric_age, whose holder keeps its xmin."""

    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        row = {"database": DATABASE, "xid_age": xid_age + XIDS_S * edge, "mxid_age": 0}
        if holder is None:
            return [row]
        return [row | {"xmin_age": xmin_age + XIDS_S * edge + 9} | dict(holder)]

    return rows


def positions(edge: int) -> Sequence[Mapping[str, Any]]:
    """Rows of metric_wal for a load that writes ``WAL_S``."""
    return [{"insert_lsn_bytes": 512 * MB + WAL_S * edge, "redo_lsn_bytes": 500 * MB}]


def churn(**given: Any) -> Load:
    """A load of updates in which nothing is wrong, but for ``given``; its rows are added."""
    rows = {
        "metric_database": pages(36, 40),
        "metric_age": ages(None),
        "metric_wal": positions,
        **given.pop("rows", {}),
    }
    return Load(
        tables={"public.orders": {"n_tup_upd": 2000, "n_tup_del": 0, "n_dead_tup": 1500}},
        server_facts={"database": DATABASE, **given.pop("server_facts", {})},
        rows=rows,
        **given,
    )


def table_facts(**given: Any) -> Any:
    """Rows of metric_autovacuum for the table of ``churn``."""
    row = {"relation": "public.orders", "reltuples": 1e6, "options": None, **given}
    return lambda edge: [row]


def workers(asleep: float, awake: float) -> Any:
    """Rows of wait_sample for autovacuum workers."""
    waits = (("Timeout", "VacuumDelay", asleep), ("", "", awake))

    def rows(edge: int) -> Sequence[Mapping[str, Any]]:
        base = {"ticks": 100, "backend_type": "autovacuum worker", "state": "active"}
        named = [
            {"wait_event_type": kind, "wait_event": event, "count": round(average * 100)}
            for kind, event, average in waits
        ]
        return [base | each for each in named if each["count"]]

    return rows
