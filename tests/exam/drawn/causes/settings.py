"""Settings with bad values, by kind, drawn from pg_settings of the server itself.

A kind says which rows of pg_settings it takes, and what a bad value of one is. Some are set for the
role or the database of the load alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from exam.drawn.model import Draft, Entry, Right, Setting

_JOINS = ("join", "join-by-kind", "many-join")
_READS = ("by-key", "by-parent", "by-kind", "latest", "range", "join", "skewed", "join-by-kind")
_WRITES = ("update-parent", "update-child", "insert-log", "insert-batch", "upsert")
_FOR_ONE = ("user", "superuser")
"""Contexts of settings that a role or a database can have."""
Bad = Callable[[Setting, Draft], str]


def _fault(draft: Draft, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the members of a fault that sets ``values``, for all or for the load alone."""
    rows = [draft.server.settings[name] for name in values if not _is_of_library(name)]
    for_one = all(row.context in _FOR_ONE for row in rows)
    scopes = ("system", "system", "database", "role") if for_one else ("system",)
    if len(rows) < len(values):  # Before PostgreSQL 17, ALTER SYSTEM knows no library's settings.
        scopes = ("database", "role")
    scope = draft.chance.choice(scopes)
    restart = any(row.context == "postmaster" for row in rows)
    return {"settings": dict(values), "scope": scope, "restart": restart}


def _one_of(takes: Callable[[Setting], bool], bad: Bad) -> Callable[[Draft], dict[str, Any] | None]:
    """Return the draw of one setting that is taken, with a bad value."""

    def fault(draft: Draft) -> dict[str, Any] | None:
        rows = sorted(name for name, row in draft.server.settings.items() if takes(row))
        if not rows:
            return None
        row = draft.server.settings[draft.chance.choice(rows)]
        return _fault(draft, {row.name: bad(row, draft)})

    return fault


def _these(*choices: Mapping[str, str]) -> Callable[[Draft], dict[str, Any] | None]:
    """Return the draw of one of the groups of settings, of those that the server has."""

    def fault(draft: Draft) -> dict[str, Any] | None:
        known = [
            each
            for each in choices
            if all(name in draft.server.settings or _is_of_library(name) for name in each)
        ]
        return _fault(draft, draft.chance.choice(known)) if known else None

    return fault


def _is_of_library(name: str) -> bool:
    """Return whether a setting is known once a library is loaded."""
    return "." in name


def _compiled(draft: Draft) -> dict[str, Any] | None:
    names = ("jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost")
    if not draft.server.jit:
        return None
    some = names[: draft.chance.choice((1, 3))]
    return _fault(draft, dict.fromkeys(some, "0"))


def _is(category: str, *vartypes: str) -> Callable[[Setting], bool]:
    return lambda row: row.category.endswith(category) and row.vartype in vartypes


def _turned(row: Setting, draft: Draft) -> str:
    """The other value of a switch."""
    return "off" if row.boot == "on" else "on"


def _distorted(row: Setting, draft: Draft) -> str:
    """A cost that is far from the default, within the range."""
    value = float(row.boot) * draft.chance.choice((0.0, 0.001, 1000.0, 100_000.0))
    low, high = row.low or 0.0, row.high if row.high is not None else value
    value = min(max(value, low), high)
    return f"{round(value)}" if row.vartype == "integer" else f"{value:g}"


def _is_cost(row: Setting) -> bool:
    is_cost = _is("Planner Cost Constants", "real", "integer")(row)
    return is_cost and not row.name.startswith("jit")


_UNFIT_FOR_LOADS = ("ignore_system_indexes", "debug_assertions", "zero_damaged_pages")


def _is_for_developers(row: Setting) -> bool:
    is_switch = row.vartype == "bool" and row.boot == "off" and row.context in _FOR_ONE
    return row.category == "Developer Options" and is_switch and row.name not in _UNFIT_FOR_LOADS


def _is_logging(row: Setting) -> bool:
    is_switch = row.vartype == "bool" and row.boot == "off" and row.context in _FOR_ONE
    what = row.category.endswith(("What to Log", "Monitoring"))
    return what and is_switch and row.name.startswith(("log_", "debug_"))


def _is_counting(row: Setting) -> bool:
    return row.name.startswith("track_") and row.vartype == "bool" and row.boot == "off"


def _entry(
    name: str,
    kind: str,
    fault: Callable[[Draft], dict[str, Any] | None],
    *,
    also: tuple[str, ...] = (),
    denied_by: tuple[str, ...] = ("costly-settings",),
    **more: Any,
) -> Entry:
    """Return an entry; a finding that changes one of the settings that are drawn, or of those in
    ``also``, names the cause."""
    right = Right(settings=also, denied_by=denied_by)
    return Entry(name, f"setting: {kind}", right, fault=fault, **more)


def _planner(name: str, fault: Callable[[Draft], dict[str, Any] | None], **more: Any) -> Entry:
    return _entry(name, "planner", fault, **more)


ENTRIES = (
    _planner(
        "planner-switch",
        _one_of(_is("Planner Method Configuration", "bool"), _turned),
        loads=_READS,
    ),
    _planner(
        "no-index-scans",
        _these({"enable_indexscan": "off", "enable_bitmapscan": "off"}),
        loads=("by-key", "by-parent", "by-kind", "join", "update-parent", "update-child"),
    ),
    _planner("cost-constant", _one_of(_is_cost, _distorted), loads=_READS),
    _planner(
        "index-costs",
        _these({"random_page_cost": "100000"}, {"cpu_index_tuple_cost": "10000"}),
        loads=("by-key", "by-parent", "by-kind", "skewed"),
    ),
    _planner(
        "no-pruning",
        _these({"enable_partition_pruning": "off"}),
        loads=("by-key", "update-child"),
        partitions=(60, 160),
    ),
    _planner(
        "join-order",
        _these(
            {"join_collapse_limit": "1"},
            {"geqo_threshold": "2", "geqo_pool_size": "1000"},
            {"geqo": "off", "join_collapse_limit": "12"},
        ),
        loads=("many-join",),
    ),
    _planner(
        "custom-plans",
        _these({"plan_cache_mode": "force_custom_plan"}),
        denied_by=("parse-plan", "costly-settings"),
        loads=("many-join", "join", "by-key"),
        protocols=("prepared",),
    ),
    _planner(
        "generic-plans",
        _these({"plan_cache_mode": "force_generic_plan"}),
        loads=("skewed", "by-key"),
        protocols=("prepared", "extended"),
    ),
    _entry(
        "jit",
        "jit",
        _compiled,
        also=("jit",),
        denied_by=("jit",),
        loads=("by-key", "range", "join", "by-kind"),
    ),
    _entry(
        "forced-workers",
        "parallel",
        _these(
            {
                "parallel_setup_cost": "0",
                "parallel_tuple_cost": "0",
                "min_parallel_table_scan_size": "0",
                "min_parallel_index_scan_size": "0",
            },
            {"debug_parallel_query": "on"},
            {"force_parallel_mode": "on"},
        ),
        also=("max_parallel_workers_per_gather", "max_parallel_workers"),
        loads=("by-key", "range", "by-parent", "join", "sort"),
    ),
    _entry(
        "developer-switch",
        "debug and log",
        _one_of(_is_for_developers, _turned),
    ),
    _entry(
        "printed-plans",
        "debug and log",
        _these(
            {"debug_print_plan": "on"},
            {"debug_print_parse": "on"},
            {"debug_print_rewritten": "on", "debug_print_plan": "on"},
        ),
        loads=(*_READS, "many-join"),
    ),
    _entry(
        "explained",
        "debug and log",
        _these(
            {
                "session_preload_libraries": "auto_explain",
                "auto_explain.log_min_duration": "0",
                "auto_explain.log_analyze": "on",
            },
        ),
        loads=("by-key", "range", "sort", "join-by-kind"),
    ),
    _entry(
        "checked-wal",
        "debug and log",
        _these({"wal_consistency_checking": "all"}),
        loads=_WRITES,
    ),
    _entry("logging-switch", "debug and log", _one_of(_is_logging, _turned)),
    _entry(
        "log-everything",
        "debug and log",
        _these(
            {"log_statement": "all"},
            {"log_min_duration_statement": "0"},
            {"log_min_messages": "debug5"},
            {"log_min_messages": "debug2", "log_error_verbosity": "verbose"},
            {"client_min_messages": "debug5"},
        ),
        loads=("by-key", "update-parent", "insert-log"),
    ),
    _entry(
        "counting",
        "counting",
        _one_of(_is_counting, _turned),
        loads=(*_READS, *_WRITES),
    ),
    _entry(
        "counted-functions",
        "counting",
        _these({"track_functions": "all"}, {"compute_query_id": "on"}),
        loads=("function",),
    ),
    _entry(
        "commit-delay",
        "commit",
        _these(
            {"commit_delay": "3000", "commit_siblings": "0"},
            {"commit_delay": "20000", "commit_siblings": "0"},
            {"commit_delay": "10000"},
        ),
        denied_by=("commit-delay",),
        loads=_WRITES,
        clients=(4, 16),
    ),
    _entry(
        "sync-method",
        "commit",
        _these(
            {"wal_sync_method": "open_sync"},
            {"wal_sync_method": "open_datasync"},
            {"wal_sync_method": "fsync"},
        ),
        denied_by=(),
        loads=_WRITES,
    ),
    _entry(
        "work-mem",
        "memory",
        _these(
            {"work_mem": "64kB"},
            {"work_mem": "128kB", "hash_mem_multiplier": "1"},
        ),
        also=("work_mem", "hash_mem_multiplier"),
        denied_by=("temp-files",),
        loads=("sort", "hash"),
        alone=True,
    ),
    _entry(
        "shared-buffers",
        "memory",
        _these({"shared_buffers": "256kB"}, {"shared_buffers": "1MB"}),
        denied_by=("small-shared-buffers",),
        loads=("by-key", "by-parent", "range", "by-kind"),
    ),
    _entry(
        "wal-sizes",
        "WAL and checkpoints",
        _these(
            {"max_wal_size": "32MB", "min_wal_size": "32MB"},
            {"max_wal_size": "32MB", "min_wal_size": "32MB", "wal_recycle": "off"},
            {"wal_buffers": "32kB"},
            {"wal_compression": "pglz"},
            {"wal_writer_delay": "1ms", "wal_writer_flush_after": "0"},
            {"checkpoint_timeout": "30s", "checkpoint_completion_target": "0"},
        ),
        loads=_WRITES,
        clients=(4, 16),
    ),
    _entry(
        "flush-behind",
        "WAL and checkpoints",
        _these({"backend_flush_after": "1"}, {"bgwriter_flush_after": "1"}),
        loads=_WRITES,
    ),
    _entry(
        "autovacuum",
        "autovacuum",
        _these(
            {"autovacuum": "off"},
            {
                "autovacuum_naptime": "1",
                "autovacuum_vacuum_threshold": "0",
                "autovacuum_vacuum_scale_factor": "0",
                "autovacuum_vacuum_cost_delay": "0",
            },
        ),
        loads=("update-parent", "update-child", "upsert"),
    ),
    _entry(
        "deadlock-timeout",
        "locks",
        _these({"deadlock_timeout": "1"}),
        loads=("update-parent", "upsert"),
    ),
)
