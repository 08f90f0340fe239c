"""The load engine's intervals as rows of the run file's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pgdyno.redact import blank

if TYPE_CHECKING:
    from pgdyno._engine import ErrorRow, GroupRow, Interval, ScriptRow, StatementRow, ThreadRow

Cells = dict[str, object]
"""Column → value of one row to be recorded."""

SCRIPT_COUNTS = (
    *("intended", "sent", "done", "failed", "skipped", "cancelled", "backlog", "retried"),
    *("expected_errors", "late"),
)
SCRIPT_HISTOGRAMS = ("response", "wait", "client_lag", "pool_wait", "connect", "service")
GROUP_COUNTS = (
    *("clients", "connections", "connects", "reconnects", "connect_failures", "unanswered"),
    "unanswered_us_max",
)
GROUP_HISTOGRAMS = ("tcp", "tls", "auth", "ready", "total", "silence")
THREAD_COUNTS = (
    *("thread", "cpu_user_us", "cpu_system_us", "run_queue_delay_us", "passes"),
    "loop_stall_us_max",
)
ERROR_FIELDS = ("script", "file", "line", "client", "sqlstate", "expected", "retried", "count")
ERROR_TEXTS = ("statement", "message", "detail", "hint", "context", "excerpt", "advice")
"""Texts of an error, which may contain a password."""


def interval_rows(interval: Interval, at_ms: int) -> dict[str, list[Cells]]:
    """Return table → rows of an interval that started at ``at_ms``; its tag is the slice."""
    common: Cells = {"at_ms": at_ms, "slice_id": interval["tag"]}
    timed: Cells = common | {"duration_ms": (interval["ended_ns"] - interval["started_ns"]) / 1e6}
    clients = {row["group"]: _columns(row, ["clients"]) for row in interval["groups"]}
    return {
        "interval": [
            timed | _script_row(row) | clients[row["group"]] for row in interval["scripts"]
        ],
        "group_interval": [timed | _group_row(row) for row in interval["groups"]],
        "statement_interval": [
            timed | _statement_row(row)
            for row in interval["statements"]
            if row["done"] or row["failed"]
        ],
        "http_interval": [
            timed | {"client_group": row["group"]} | dict(http)
            for row in interval["groups"]
            if (http := row.get("http")) is not None
        ],
        "request_interval": [
            timed | _request_row(row)
            for row in interval["statements"]
            if row.get("first_byte") is not None and row["done"]
        ],
        "error": [common | _error_row(row) for row in interval["errors"]],
        "metric_generator": [timed | _thread_row(row) for row in interval["threads"]],
    }


def _script_row(row: ScriptRow) -> Cells:
    named: Cells = {"client_group": row["group"], "script": row["script"]}
    return named | _columns(row, SCRIPT_COUNTS) | _histograms(row, SCRIPT_HISTOGRAMS)


def _group_row(row: GroupRow) -> Cells:
    named: Cells = {"client_group": row["group"]}
    return named | _columns(row, GROUP_COUNTS) | _histograms(row, GROUP_HISTOGRAMS)


def _statement_row(row: StatementRow) -> Cells:
    return {
        "client_group": row["group"],
        "script": row["script"],
        "position": row["position"],
        "statement": blank(row["statement"]),
        "done": row["done"],
        "failed": row["failed"],
        "untouched": row.get("untouched", 0),
        "service_hist": row["service"],
    }


def _request_row(row: StatementRow) -> Cells:
    return {
        "client_group": row["group"],
        "script": row["script"],
        "position": row["position"],
        "statement": blank(row["statement"]),
        "first_byte_hist": row["first_byte"],
    }


def _error_row(row: ErrorRow) -> Cells:
    named: Cells = {"client_group": row["group"]}
    texts = {name: blank(str(text)) for name, text in _columns(row, ERROR_TEXTS).items()}
    return named | _columns(row, ERROR_FIELDS) | texts


def _thread_row(row: ThreadRow) -> Cells:
    return _columns(row, THREAD_COUNTS) | _histograms(row, ["send_late"])


def _columns(row: Mapping[str, object], names: Iterable[str]) -> Cells:
    return {name: row[name] for name in names}


def _histograms(row: Mapping[str, object], names: Iterable[str]) -> Cells:
    """Return encoded histograms; one that this build of the engine does not have is empty."""
    return {f"{name}_hist": row.get(name, b"") for name in names}
