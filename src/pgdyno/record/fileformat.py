"""Format of run files: application ID, schema version, columns, identity of the writer.

``application_id`` and ``user_version`` (https://sqlite.org/pragma.html#pragma_application_id)
identify run files and their schema version.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

MetricRow = dict[str, str | float | None]
"""Column → value; columns are those of the table in ``record/schema.sql``."""
APPLICATION_ID = 0x70676479
"""The letters pgdy, big-endian, at byte 68 of the file."""

SCHEMA_VERSION = 28
"""Raised with every change of the schema. Files of this version alone are read."""

FRESH_S = 10
"""Age up to which a changed file is taken to have a writer, if its process is not visible."""

GAUGES = frozenset(
    {
        *("numbackends", "n_live_tup", "n_dead_tup", "size_bytes", "xid_age", "mxid_age"),
        *("toast_xid_age", "toast_mxid_age", "dead_full", "indexes_total"),
        *("indexes_processed", "member_files", "members_max"),
        *("xmin_age", "count", "xact_age_ms_max", "waiting", "behind_one_max", "wait_ms_max"),
        *("load1", "memory_total_bytes", "memory_available_bytes", "dirty_bytes"),
        *("writeback_bytes", "procs_running", "procs_blocked", "in_flight", "rss_bytes"),
        *("write_lag_ms", "flush_lag_ms", "replay_lag_ms", "lag_bytes", "automatic"),
        *("to_prevent_wraparound", "heap_blks_total", "heap_blks_scanned", "heap_blks_vacuumed"),
        *("index_vacuum_count", "checkpoint_unix_ms", "thread", "pid"),
        "at_work",
        *("free_bytes", "wal_dir_bytes", "log_bytes", "started_unix_ms", "checkpointer_unix_ms"),
        *("in_recovery", "xmin_held_ms", "held_ms", "catalog_xmin_age", "safe_wal_bytes", "active"),
        *("restart_lsn_bytes", "last_archived_unix_ms", "last_failed_unix_ms", "used", "ours"),
        *(
            "others_idle",
            "usable",
            "sessions",
            "hidden_sessions",
            "last_possible",
            "reltuples",
            "n_ins_since_vacuum",
        ),
        *("idle", "in_transaction", "in_aborted", "fastpath", "disabled", "hidden", "unused"),
        *("unfrozen", "vacuumed_ms", "holders", "statement_id"),
        *("clients", "clients_waiting", "servers_active", "servers_idle", "listen_queue"),
        *("fillfactor", "enforces", "has_expression", "jit_share"),
        *("pool_max", "pool_active", "pool_idle", "pool_waiting", "threads_max", "threads_busy"),
        *("connector_queue", "connections_open", "connections_max", "accept_queue"),
        *("heap_bytes", "heap_bytes_max", "threads_live"),
    }
)
"""Columns of metric tables that go up and down; all other numeric columns only grow."""

KEY_COLUMNS = {
    "metric_io": ("backend_type", "object", "context"),
    "metric_table": ("relation",),
    "metric_index": ("relation", "index_name"),
    "metric_replication": ("application_name",),
    "metric_vacuum": ("pid", "relation"),
    "metric_age": ("database",),
    "metric_slot": ("slot_name",),
    "metric_sequence": ("sequence",),
    "metric_autovacuum": ("relation",),
    "metric_catalogue": ("relation",),
    "metric_table_lock": ("relation", "mode", "backend_type", "statement_id"),
    "metric_foreign": ("database",),
    "metric_activity": ("state",),
    "metric_origin": ("role", "application", "address"),
    "metric_disk": ("device",),
    "metric_space": ("holds",),
    "metric_process": ("role",),
    "metric_control_group": ("control_group",),
    "metric_pooler": ("pool",),
    "metric_front_page": ("page",),
    "metric_program": ("whose", "program"),
    "metric_generator": ("thread",),
}
"""Columns that identify a row within one sampling of a table."""

CLIENT_BACKEND, PARALLEL_WORKER = "client backend", "parallel worker"
"""Types of the server's processes, as pg_stat_activity has them."""
OTHERS_BACKEND = "client backend of others"
"""In metric_process, clients that are not the load's, from when they were seen at work."""
CLIENT_BACKENDS = (CLIENT_BACKEND, OTHERS_BACKEND)
EXITED = "exited"
"""In metric_process, all that ended between two samples, from the last one that saw them."""
LITTLE_EACH = "(others)"
"""In metric_program, all programs together that have no rows of their own."""
CORES_BUSY, CORES_ALL = "(busy)", "(all)"
"""In metric_program, what the machine's cores did: their time at work, and all their time."""

_TABLE = r"^create table (\w+) \(([^;]+);"
_COLUMN = r"(?:^ *|, )(\w+) (integer|real|text|blob)\b"


@cache
def schema_sql() -> str:
    """Return the statements that create an empty run file."""
    return Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


@cache
def columns() -> dict[str, dict[str, str]]:
    """Return table → column → declared type ('integer', 'real', 'text' or 'blob'), read from the
    schema's text."""
    bare = re.sub("--.*", "", schema_sql())
    return {
        table: dict(re.findall(_COLUMN, described, re.MULTILINE))
        for table, described in re.findall(_TABLE, bare, re.MULTILINE)
    }


def writer_identity() -> dict[str, str | int]:
    """Return an identity of this process that no later process has."""
    pid = os.getpid()
    return {
        "pid": pid,
        "started_ticks": _started_ticks(pid) or 0,
        "boot_id": _boot_id(),
        "pid_namespace": _pid_namespace(),
    }


def writer_lives(writer: dict[str, str | int], path: Path) -> bool:
    """Return whether the process that ``writer_identity`` identified is still running.

    If it ran in another PID namespace (a container), a file that changed in the last ten seconds is
    taken to have a writer.
    """
    if writer.get("boot_id") != _boot_id():
        return False
    if writer.get("pid_namespace") != _pid_namespace():
        return _changed_lately(path)
    return _started_ticks(int(writer["pid"])) == writer["started_ticks"]


def _started_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot, field 22 of proc(5)'s stat."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()
    return None if after_name[0] in "ZX" else int(after_name[19])


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _changed_lately(path: Path) -> bool:
    import time

    changed = 0.0
    for name in (path, path.with_name(path.name + "-wal")):
        if name.exists():
            changed = max(changed, name.stat().st_mtime)
    return time.time() - changed < FRESH_S
