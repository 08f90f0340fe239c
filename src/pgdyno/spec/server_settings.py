"""Settings of a server: those in force, parsed as PostgreSQL does (Boolean words, units, bare
numbers of pg_settings), and the defaults of those that can make a server slower.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pgdyno.spec.units import parse_duration_ms, parse_size_bytes

# Base units of settings for values without a unit (pg_settings.unit), as factors to bytes and to
# milliseconds.
_SIZE_UNITS = {
    "max_wal_size": 1 << 20,
    "shared_buffers": 8192,
    "wal_buffers": 8192,
    "wal_segment_size": 1,
    "work_mem": 1024,
}
_DURATION_UNITS_MS = {
    "autovacuum_naptime": 1000.0,
    "autovacuum_vacuum_cost_delay": 1.0,
    "checkpoint_timeout": 1000.0,
    "commit_delay": 0.001,
    "wal_writer_delay": 1.0,
}


_OF_CHOICE = re.compile(
    r"enable_(?!partition_pruning)\w+|(?:random|seq)_page_cost|cpu_\w+_cost|parallel_\w+_cost"
    r"|effective_cache_size"
)
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
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


def switch_of(value: str) -> bool | None:
    """Parse a Boolean as PostgreSQL does (parse_bool in bool.c): any unambiguous prefix of its
    words, in any case; None for anything else."""
    word = value.strip().lower()
    if not word or word == "o":  # "o" could be on or off
        return None
    if any(known.startswith(word) for known in _TRUE):
        return True
    return False if any(known.startswith(word) for known in _FALSE) else None


def choice_of(value: str) -> str:
    """Return an enum value in lower case, with "on" or "off" for their synonyms, which unlike those
    of a Boolean cannot be abbreviated (guc_tables.c)."""
    word = value.strip().lower()
    return "on" if word in _TRUE else "off" if word in _FALSE else word


def only_chooses_plans(name: str) -> bool:
    """Return whether a setting does nothing but let the planner choose another plan."""
    return _OF_CHOICE.fullmatch(name) is not None


def is_of_jit(name: str) -> bool:
    """Return whether a setting is one of the compilation of expressions."""
    return name.startswith("jit")


class ActiveSettings:
    """Settings by name, in any case. An unknown setting is None, not its default."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in values.items()}

    @property
    def values(self) -> Mapping[str, str]:
        """The settings by name in lower case, as written."""
        return self._values

    def under(self, values: Mapping[str, str], without: Collection[str] = ()) -> ActiveSettings:
        """Return a copy without the settings named in ``without``, overridden by ``values``."""
        mine = {name: value for name, value in self._values.items() if name not in without}
        return ActiveSettings({**mine, **{name.lower(): v for name, v in values.items()}})

    def text(self, name: str) -> str | None:
        """Return the value as written."""
        return self._values.get(name)

    def is_on(self, name: str) -> bool | None:
        """True if a setting is on; values of an enum other than off count as on."""
        value = self._values.get(name)
        return None if value is None else switch_of(value) is not False

    def number(self, name: str) -> float | None:
        """Return the value of a setting without a unit."""
        try:
            return float(self._values[name])
        except (KeyError, ValueError):
            return None

    def size_bytes(self, name: str) -> int | None:
        """Return a setting of memory or disk space in bytes."""
        bare = self.number(name)
        if bare is not None:
            return round(bare * _SIZE_UNITS[name])
        try:
            return parse_size_bytes(self._values[name])
        except (KeyError, ValueError):
            return None

    def duration_ms(self, name: str) -> float | None:
        """Return a setting of time in milliseconds."""
        bare = self.number(name)
        if bare is not None:
            return bare * _DURATION_UNITS_MS[name]
        microseconds = self._values.get(name, "").removesuffix("us").strip()
        if microseconds.isdecimal():
            return int(microseconds) / 1000
        try:
            return float(parse_duration_ms(self._values[name]))
        except (KeyError, ValueError):
            return None


def naptime_s(settings: ActiveSettings) -> float:
    """Return the time between two looks of autovacuum at a database; where it is not known,
    PostgreSQL's default."""
    known_ms = settings.duration_ms("autovacuum_naptime")
    return (known_ms or parse_duration_ms(AUTOVACUUM["autovacuum_naptime"])) / 1000
