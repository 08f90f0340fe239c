"""Rows that the looks of a check record, made up: for the tests of its rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pgdyno.check._judging import Judgement, judge
from pgdyno.looks.look import MissingLook, looks
from pgdyno.record import LookRow
from pgdyno.record.finding import Finding

if TYPE_CHECKING:
    from pgdyno.record import RunFile

Rows = Sequence[Mapping[str, Any]]
GB = 1 << 30
DAY_S = 86400.0

SERVER = {
    "version_num": 180000,
    "in_recovery": False,
    "database": "shop",
    "role": "dba",
    "superuser": True,
    "block_bytes": 8192,
    "uptime_s": 90 * DAY_S,
    "counters_s": 60 * DAY_S,
}
HOST = {"same_host_as_server": True, "cores": 8, "cores_host": 8, "memory_bytes": 32 * GB,
        "memory_host_bytes": 32 * GB,
        "filesystem": {"data": {"type": "ext4", "options": "rw,relatime"}}}  # fmt: skip
HEALTHY: dict[str, dict[str, Any]] = {
    "relation_total": {"relations": 400, "bytes": 2.0e8, "toast_bytes": 0.0},
    "database": {
        "database": "shop", "current": True, "xid_age": 1000, "mxid_age": 0,
        "checksum_failures": 0, "temp_files": 0, "temp_bytes": 0, "blks_read": 9000,
        "blks_hit": 9_000_000, "transactions": 400_000, "deadlocks": 0, "counters_s": 60 * DAY_S,
    },
    "wal_total": {"wal_bytes": 1e9, "wal_records": 1e6, "wal_fpi": 1e4, "wal_buffers_full": 10,
                  "counters_s": 60 * DAY_S},
    "statement_info": {"dealloc": 0, "counters_s": 60 * DAY_S},
    "connection_state": {"state": "idle", "sessions": 10, "state_s_max": 5.0,
                         "transaction_s_max": None},
    "kernel": {
        "overcommit_memory": 0, "overcommit_ratio": 50, "dirty_ratio": 20,
        "dirty_background_ratio": 10, "dirty_bytes": 0, "dirty_background_bytes": 0,
        "swappiness": 60, "zone_reclaim_mode": 0, "thp_enabled": "always", "thp_defrag": "madvise",
        "uptime_s": 30 * DAY_S, "MemTotal": 32 * GB, "MemAvailable": 24 * GB, "Dirty": 1 << 20,
        "Writeback": 0, "CommitLimit": 16 * GB, "Committed_AS": 30 * GB, "oom_kill": 0,
        "compact_stall": 1000,
    },
    "process_memory": {"processes": 20, "swap_bytes": 4096, "page_table_bytes": 1 << 20},
    "block_device": {"device": "nvme0n1", "rotational": False, "scheduler": "none",
                     "read_ahead_kb": 128, "encrypted": False, "holds": "data,wal"},
    "disk_space": {"holds": "data,wal", "filesystem": "ext4", "size_bytes": 100 * GB,
                   "free_bytes": 50 * GB, "wal_dir_bytes": GB},
}  # fmt: skip
"""The only row of looks that always have one, on a server that is well."""
# name → value, unit, built-in value: what a fresh server has.
SETTINGS: dict[str, tuple[str, str | None, str]] = {
    "allow_system_table_mods": ("off", None, "off"),
    "archive_command": ("(disabled)", None, ""),
    "archive_library": ("", None, ""),
    "archive_mode": ("off", None, "off"),
    "autovacuum": ("on", None, "on"),
    "autovacuum_max_workers": ("3", None, "3"),
    "autovacuum_vacuum_cost_delay": ("2", "ms", "2"),
    "autovacuum_vacuum_cost_limit": ("-1", None, "-1"),
    "autovacuum_vacuum_max_threshold": ("100000000", None, "100000000"),
    "autovacuum_vacuum_scale_factor": ("0.2", None, "0.2"),
    "autovacuum_vacuum_threshold": ("50", None, "50"),
    "autovacuum_work_mem": ("-1", "kB", "-1"),
    "commit_delay": ("0", None, "0"),
    "commit_siblings": ("5", None, "5"),
    "data_checksums": ("on", None, "off"),
    "debug_discard_caches": ("0", None, "0"),
    "default_toast_compression": ("pglz", None, "pglz"),
    "effective_cache_size": ("524288", "8kB", "524288"),
    "fsync": ("on", None, "on"),
    "full_page_writes": ("on", None, "on"),
    "ignore_checksum_failure": ("off", None, "off"),
    "ignore_invalid_pages": ("off", None, "off"),
    "ignore_system_indexes": ("off", None, "off"),
    "jit": ("on", None, "on"),
    "lock_timeout": ("0", "ms", "0"),
    "log_duration": ("off", None, "off"),
    "log_min_duration_sample": ("-1", "ms", "-1"),
    "log_min_duration_statement": ("-1", "ms", "-1"),
    "log_statement": ("none", None, "none"),
    "maintenance_work_mem": ("65536", "kB", "65536"),
    "max_connections": ("100", None, "100"),
    "max_parallel_workers": ("8", None, "8"),
    "max_parallel_workers_per_gather": ("2", None, "2"),
    "max_slot_wal_keep_size": ("-1", "MB", "-1"),
    "max_wal_size": ("1024", "MB", "1024"),
    "max_worker_processes": ("8", None, "8"),
    "shared_buffers": ("16384", "8kB", "16384"),
    "statement_timeout": ("0", "ms", "0"),
    "synchronous_commit": ("on", None, "on"),
    "synchronous_standby_names": ("", None, ""),
    "track_counts": ("on", None, "on"),
    "track_functions": ("none", None, "none"),
    "transaction_timeout": ("0", "ms", "0"),
    "wal_buffers": ("512", "8kB", "-1"),
    "wal_level": ("replica", None, "replica"),
    "wal_writer_delay": ("200", "ms", "200"),
    "work_mem": ("4096", "kB", "4096"),
    "zero_damaged_pages": ("off", None, "off"),
}
CHOICES = {"default_toast_compression": ["pglz", "lz4"]}


def setting_rows(changed: Mapping[str, str], *, hidden: Sequence[str] = ()) -> Rows:
    """Rows of the look ``setting``: those of a fresh server, with ``changed``."""
    known = {**SETTINGS, **{n: (v, None, "") for n, v in changed.items() if n not in SETTINGS}}
    return [
        {
            "name": name,
            "setting": changed.get(name, value),
            "unit": unit,
            "boot_val": boot,
            "source": "configuration file" if name in changed else "default",
            "context": "sighup",
            "pending_restart": False,
            "enumvals": CHOICES.get(name),
        }
        for name, (value, unit, boot) in known.items()
        if name not in hidden
    ]


def commits(network_ms: float = 0.05, flush_ms: float = 0.1, standby_ms: float = 0.0) -> Rows:
    """Rows of the look ``write_probe``; with ``standby_ms``, standbys are waited for."""
    means = {"round trip": network_ms, "without flush": network_ms + 0.05}
    flushed = means["without flush"] + flush_ms
    if standby_ms:
        means["own flush"] = flushed
    means["commit"] = flushed + standby_ms
    columns = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")
    return [{"way": way, "count": 6000, **dict.fromkeys(columns, ms)} for way, ms in means.items()]


def judged(
    *,
    found_before: Sequence[str] = (),
    settings: Mapping[str, str] | Rows | None = None,
    changed: Mapping[str, Mapping[str, Any]] | None = None,
    server: Mapping[str, Any] | None = None,
    host: Mapping[str, Any] | None = None,
    missing: Mapping[str, MissingLook] | None = None,
    **rows: Rows,
) -> Judgement:
    """What the rules say of a server that is well, but for these: ``changed`` columns of the only
    row of a look, or its rows by name."""
    given: dict[str, Rows] = {look.name: [] for look in looks()}
    given |= {name: [row | dict((changed or {}).get(name, {}))] for name, row in HEALTHY.items()}
    given["server"] = [SERVER | (server or {})]
    given["write_probe"] = commits()
    given["setting"] = (
        setting_rows(settings or {}) if not isinstance(settings, Sequence) else settings
    )
    assert rows.keys() <= given.keys()
    given |= rows
    facts = {"superuser": True, "data_directory": "/srv/pg"} | dict(server or {})
    recorded = Recorded(given, HOST | (host or {}), missing or {}, facts)
    return judge(cast("RunFile", recorded), found_before)


class Recorded:
    """As much of a run file as rules read: rows as they come back from JSON, and the host."""

    def __init__(
        self,
        rows: Mapping[str, Rows],
        host: Mapping[str, Any],
        missing: Mapping[str, MissingLook],
        server: Mapping[str, Any],
    ) -> None:
        self._rows = rows
        self._missing = missing
        self.run = SimpleNamespace(host=host, server=server)

    def looks(self) -> list[LookRow]:
        """What was looked at."""
        return [self._look(name) for name in sorted(self._rows)]

    def _look(self, name: str) -> LookRow:
        lacks = self._missing.get(name)
        if lacks is not None:
            return LookRow(name, 0, 1.0, None, lacks.why, lacks.allow)
        return LookRow(name, 0, 1.0, json.loads(json.dumps(list(self._rows[name]))), "", "")


def finding(judgement: Judgement, rule: str) -> Finding:
    """The finding of one rule."""
    return next(each for each in judgement.findings if each.id == rule)


def found(judgement: Judgement) -> dict[str, Finding]:
    """The findings with the status found, by rule."""
    return {each.id: each for each in judgement.findings if each.status == "found"}
