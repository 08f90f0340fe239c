"""The values that a server would have under a profile, as rules compare them."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.errors import UsageError
from pgdyno.server import Setting
from pgdyno.server.settings.setting_values import as_shown, in_base_unit


class Values:
    """Settings of a server, with the lines of a profile in place of what is in force."""

    def __init__(self, found: Mapping[str, Setting], given: Mapping[str, str]) -> None:
        self._found = found
        self._given = given

    def given(self, name: str) -> bool:
        """True if the profile has a line for the setting."""
        return name in self._given

    def known(self, name: str) -> bool:
        """True if the server has the setting."""
        return name in self._found

    def word(self, name: str) -> str:
        """Return the value as pg_settings would show it, in lower case; '' for an unknown
        setting."""
        setting = self._found.get(name)
        if setting is None:
            return ""
        if name not in self._given:
            return setting.value.lower()
        try:
            return as_shown(setting, self._given[name]).lower()
        except UsageError:
            return ""

    def number(self, name: str) -> float | None:
        """Return the value in the setting's own unit; None if there is none."""
        setting = self._found.get(name)
        if setting is None:
            return None
        try:
            return in_base_unit(setting, self._given.get(name, setting.value))
        except UsageError:
            return None

    def size_bytes(self, name: str) -> float | None:
        """Return a setting of memory or disk space in bytes."""
        number, setting = self.number(name), self._found.get(name)
        if number is None or setting is None or setting.unit is None:
            return None
        units = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20}
        return number * units[setting.unit] if setting.unit in units else None

    def is_off(self, name: str) -> bool:
        """True if a switch of the server is off."""
        return self.word(name) == "off"

    def above(self, name: str, other: str, share: float = 1.0) -> bool:
        """True if the number of one setting is above ``share`` of another one's."""
        one, two = self.number(name), self.number(other)
        return one is not None and two is not None and one > share * two
