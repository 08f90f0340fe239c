"""Settings that are in force, read as PostgreSQL reads them: its words for on and off, its units or
bare numbers of pg_settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgdyno.spec.units import parse_duration_ms, parse_size_bytes

# Base units of the settings that are computed with, for values without a unit: pg_settings,
# column "unit". Factors are to bytes and to milliseconds.
_SIZE_UNITS = {"max_wal_size": 1 << 20, "shared_buffers": 8192, "wal_buffers": 8192}
_DURATION_UNITS_MS = {"checkpoint_timeout": 1000.0, "commit_delay": 0.001, "wal_writer_delay": 1.0}


_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def switch_of(value: str) -> bool | None:
    """On or off as PostgreSQL reads a Boolean (parse_bool in bool.c): the words by any prefix that
    is unambiguous, in any case; None for anything else."""
    word = value.strip().lower()
    if not word or word == "o":  # "o" could be on or off
        return None
    if any(one.startswith(word) for one in _TRUE):
        return True
    return False if any(one.startswith(word) for one in _FALSE) else None


def choice_of(value: str) -> str:
    """The value of an enumeration in lower case, "on" or "off" for the other words that those which
    grew out of a Boolean take for these; unlike a Boolean's, in full (guc_tables.c)."""
    word = value.strip().lower()
    return "on" if word in _TRUE else "off" if word in _FALSE else word


class SettingsInForce:
    """Settings by name, in any case. A setting that is not known is None, never a default."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in values.items()}

    def under(self, values: Mapping[str, str], without: Collection[str] = ()) -> SettingsInForce:
        """The same with ``values`` on top, and ``without`` some of its own."""
        mine = {name: value for name, value in self._values.items() if name not in without}
        return SettingsInForce({**mine, **{name.lower(): v for name, v in values.items()}})

    def text(self, name: str) -> str | None:
        """The value as it was written."""
        return self._values.get(name)

    def is_on(self, name: str) -> bool | None:
        """Whether a setting that is a switch is on; its other values count as on."""
        value = self._values.get(name)
        return None if value is None else switch_of(value) is not False

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
