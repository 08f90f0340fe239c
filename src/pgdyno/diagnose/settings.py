"""Settings that were in force, read in PostgreSQL's units or as bare numbers of pg_settings."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.spec.units import parse_duration_ms, parse_size_bytes

# Base units of the settings that signatures compute with, for values without a unit: pg_settings,
# column "unit". Factors are to bytes and to milliseconds.
_SIZE_UNITS = {"max_wal_size": 1 << 20, "shared_buffers": 8192, "wal_buffers": 8192}
_DURATION_UNITS_MS = {"checkpoint_timeout": 1000.0, "commit_delay": 0.001, "wal_writer_delay": 1.0}


class SettingsInForce:
    """Settings by name. A setting that is not known is None, never a default."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name: str(value) for name, value in values.items()}

    def text(self, name: str) -> str | None:
        """The value as it was written."""
        return self._values.get(name)

    def is_on(self, name: str) -> bool | None:
        """Whether a setting that is a switch is on; its other values count as on."""
        value = self._values.get(name)
        return None if value is None else value.lower() not in {"off", "false", "no", "0"}

    def number(self, name: str) -> float | None:
        """A setting without a unit."""
        try:
            return float(self._values[name])
        except (KeyError, ValueError):
            return None

    def size_bytes(self, name: str) -> int | None:
        """A setting of memory or disk space, in bytes."""
        bare = self.number(name)
        if bare is not None:
            return round(bare * _SIZE_UNITS[name])
        try:
            return parse_size_bytes(self._values[name])
        except (KeyError, ValueError):
            return None

    def duration_ms(self, name: str) -> float | None:
        """A setting of time, in milliseconds."""
        bare = self.number(name)
        if bare is not None:
            return bare * _DURATION_UNITS_MS[name]
        microseconds = self._values.get(name, "").removesuffix("us").strip()
        if microseconds.isdigit():
            return int(microseconds) / 1000
        try:
            return float(parse_duration_ms(self._values[name]))
        except (KeyError, ValueError):
            return None
