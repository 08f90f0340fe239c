"""Defaults of settings that can make a server slower, as the server has them built in.

Source: guc_tables.c of PostgreSQL 14 to 19 (pg_settings.boot_val), as SHOW writes them;
``tests/server/test_setting_defaults.py`` compares them with servers.
"""

from __future__ import annotations

from pgdyno.spec.active_settings import ActiveSettings
from pgdyno.spec.units import parse_duration_ms

DEFAULTS = {
    "autovacuum": "on",
    "autovacuum_vacuum_cost_delay": "2ms",
    "backend_flush_after": "0",
    "bgwriter_delay": "200ms",
    "bgwriter_lru_maxpages": "100",
    "bgwriter_lru_multiplier": "2",
    "checkpoint_completion_target": "0.9",
    "checkpoint_timeout": "5min",
    "commit_delay": "0",
    "commit_siblings": "5",
    "jit_above_cost": "100000",
    "jit_inline_above_cost": "500000",
    "jit_optimize_above_cost": "500000",
    "log_duration": "off",
    "log_min_duration_sample": "-1",
    "log_min_duration_statement": "-1",
    "log_statement": "none",
    "log_statement_stats": "off",
    "max_wal_size": "1GB",
    "plan_cache_mode": "auto",
    "wal_compression": "off",
    "wal_sync_method": "fdatasync",
    "wal_writer_delay": "200ms",
}
"""Of wal_sync_method the default on Linux."""

AUTOVACUUM = {
    "autovacuum_max_workers": "3",
    "autovacuum_naptime": "1min",
    "autovacuum_vacuum_cost_limit": "-1",
    "autovacuum_vacuum_max_threshold": "100000000",
    "autovacuum_vacuum_scale_factor": "0.2",
    "autovacuum_vacuum_threshold": "50",
    "vacuum_cost_limit": "200",
}
"""Settings that decide when and how fast tables are vacuumed; max_threshold is of version 18."""


def naptime_s(settings: ActiveSettings) -> float:
    """Return the time between two looks of autovacuum at a database; where it is not known,
    PostgreSQL's default."""
    known_ms = settings.duration_ms("autovacuum_naptime")
    return (known_ms or parse_duration_ms(AUTOVACUUM["autovacuum_naptime"])) / 1000
