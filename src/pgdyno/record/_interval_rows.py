"""The load engine's intervals as rows of the run file's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdyno.redact import blank

SCRIPT_COUNTS = (
    *("intended", "sent", "done", "failed", "skipped", "cancelled", "backlog", "retried"),
    *("expected_errors", "late"),
)
SCRIPT_HISTOGRAMS = ("response", "wait", "client_lag", "pool_wait", "connect", "service")
GROUP_COUNTS = ("clients", "connections", "connects", "reconnects", "connect_failures")
GROUP_HISTOGRAMS = ("tcp", "tls", "auth", "ready", "total")
THREAD_COUNTS = (
    *("thread", "cpu_user_us", "cpu_system_us", "run_queue_delay_us", "passes"),
    "loop_stall_us_max",
)
ERROR_FIELDS = ("script", "file", "line", "client", "sqlstate", "expected", "retried", "count")
ERROR_TEXTS = ("statement", "message", "detail", "hint", "context", "excerpt", "advice")
"""Texts of an error, in which a password may stand."""


def interval_rows(interval: Mapping[str, Any], at_ms: int) -> dict[str, list[dict[str, Any]]]:
    """Table → rows, of an interval that began ``at_ms`` into the run; its tag is the slice."""
    common = {"at_ms": at_ms, "slice_id": interval["tag"]}
    lasting = common | {"duration_ms": (interval["ended_ns"] - interval["started_ns"]) / 1e6}
    clients = {row["group"]: {"clients": row["clients"]} for row in interval["groups"]}
    return {
        "interval": [
            lasting | _script_row(row) | clients[row["group"]] for row in interval["scripts"]
        ],
        "group_interval": [lasting | _group_row(row) for row in interval["groups"]],
        "statement_interval": [
            lasting | _statement_row(row)
            for row in interval["statements"]
            if row["done"] or row["failed"]
        ],
        "error": [common | _error_row(row) for row in interval["errors"]],
        "metric_generator": [lasting | _thread_row(row) for row in interval["threads"]],
    }


def _script_row(row: Mapping[str, Any]) -> dict[str, Any]:
    named = {"client_group": row["group"], "script": row["script"]}
    counts = {name: row[name] for name in SCRIPT_COUNTS}
    return named | counts | {f"{name}_hist": row[name] for name in SCRIPT_HISTOGRAMS}


def _group_row(row: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: row[name] for name in GROUP_COUNTS}
    histograms = {f"{name}_hist": row[name] for name in GROUP_HISTOGRAMS}
    return {"client_group": row["group"]} | counts | histograms


def _statement_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "client_group": row["group"],
        "script": row["script"],
        "position": row["position"],
        "statement": blank(row["statement"]),
        "done": row["done"],
        "failed": row["failed"],
        "service_hist": row["service"],
    }


def _error_row(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: row[name] for name in ERROR_FIELDS}
    return {"client_group": row["group"]} | kept | {name: blank(row[name]) for name in ERROR_TEXTS}


def _thread_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in THREAD_COUNTS} | {"send_late_hist": row["send_late"]}
