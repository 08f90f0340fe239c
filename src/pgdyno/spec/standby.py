"""The standbys of an embedded server: their number, what commits wait for, their delay, and the
program that manages failovers among them, if there is one.

Bounds and rule of Patroni's settings are those of its documentation, "Dynamic Configuration
Settings": Patroni itself replaces values that break them, or never becomes stable.
"""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from pgdyno.spec._base import Duration, Misfit, SettingValue, SpecKey, SpecTable
from pgdyno.spec.units import format_duration, parse_size_bytes

StandbyMode = Literal["async", "remote_write", "on", "remote_apply", "local"]
ManagerName = Literal["none", "patroni"]
STANDBYS_MAX = 4
# Settings of the primary that follow from the mode; server.settings must not contain them.
MODE_SETTINGS = ("synchronous_commit", "synchronous_standby_names")
MANAGED_STANDBYS = 2
"""Standbys of a managed cluster unless their number is given: three nodes."""
_MANAGER_DEFAULTS = {"ttl": 30, "loop_wait": 10, "retry_timeout": 10}
_MANAGER_S_MIN = {"ttl": 20, "loop_wait": 1, "retry_timeout": 3, "primary_start_timeout": 0}
_MANAGER_BYTES = ("maximum_lag_on_failover",)
_SWITCHES = {"on": True, "true": True, "off": False, "false": False}
_STRICT = "synchronous_mode_strict"
_MANAGER_NAMES = (*_MANAGER_S_MIN, *_MANAGER_BYTES, _STRICT)
_STANDBY_KEYS = {
    "synchronous_mode": "standby.mode",
    "synchronous_node_count": "standby.quorum",
}


class StandbySpec(SpecTable):
    """Streaming standbys, and what commits on the primary wait for."""

    count: int = Field(0, ge=0, le=STANDBYS_MAX, description="Number of streaming standbys")
    mode: StandbyMode = Field(
        "async",
        description="What a commit waits for: async, no standby; others, the value of"
        " synchronous_commit with these standbys in synchronous_standby_names",
    )
    quorum: int = Field(
        1,
        ge=1,
        le=STANDBYS_MAX + 1,
        description="Number of receivers that a commit waits for (ANY n)",
    )
    delay_ms: Duration = Field(
        0, alias="delay", description="Delay of the replication connection, each way"
    )
    receivewal: bool = Field(
        False, description="Run pg_receivewal --synchronous as an additional receiver"
    )
    manager: ManagerName = Field(
        "none", description="What runs the servers and manages failovers: pgdyno itself, or this"
    )
    manager_settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Settings of the manager under its own names"
    )

    @property
    def managed(self) -> bool:
        """True if a failover manager of its own runs the servers."""
        return self.manager != "none"

    @property
    def receivers(self) -> int:
        """Number of receivers that commits could wait for."""
        return self.count + self.receivewal

    def settings(self, names: str = "*") -> dict[str, str]:
        """Return the primary's settings for the mode; ``names`` are those of the receivers."""
        if not self.receivers or self.mode == "async":
            return {}
        return {
            "synchronous_commit": self.mode,
            "synchronous_standby_names": f"ANY {self.quorum} ({names})",
        }

    @property
    def waits(self) -> bool:
        """True if commits wait for a receiver."""
        return self.receivers > 0 and self.mode not in ("async", "local")

    @model_validator(mode="after")
    def _manager_fits(self) -> Self:
        if not self.managed:
            if self.manager_settings:
                raise Misfit(
                    SpecKey("manager_settings"),
                    " can only be used with a ",
                    SpecKey("manager"),
                    ", such as ",
                    SpecKey("manager", "patroni"),
                )
            return self
        if "count" not in self.model_fields_set:
            self.__dict__["count"] = MANAGED_STANDBYS
        if not self.count:
            raise Misfit(SpecKey("manager", self.manager), " needs a standby: count must not be 0")
        if self.receivewal:
            raise ValueError(
                f'receivewal cannot be used with manager = "{self.manager}", which drops slots that'
                " it does not know"
            )
        check_manager_settings(self.manager_settings, synchronous=self.waits)
        return self

    @model_validator(mode="after")
    def _commits_can_end(self) -> Self:
        if self.receivewal and self.mode == "remote_apply":
            raise ValueError(
                "receivewal applies nothing, so every commit would wait forever with mode ="
                " remote_apply; use mode = on to wait for its flush"
            )
        if self.receivers and self.quorum > self.receivers:
            raise ValueError(
                f"quorum = {self.quorum} must not be larger than the number of receivers,"
                f" {self.receivers}"
            )
        return self


def in_words(spec: StandbySpec) -> str:
    """Describe the standbys, such as ``2 standbys: commits wait for 1 of them (on)``."""
    parts = []
    if spec.count:
        parts.append("a standby" if spec.count == 1 else f"{spec.count} standbys")
    if spec.receivewal:
        parts.append("pg_receivewal")
    if not parts:
        return "no standby"
    delay = f", each way {format_duration(spec.delay_ms)}" if spec.delay_ms else ""
    whom = f"{spec.quorum} of them" if spec.receivers > 1 else "it"
    waits = f"commits wait for {whom} ({spec.mode})" if spec.waits else "no commit waits for it"
    manager = ", managed by Patroni" if spec.managed else ""
    return f"{' and '.join(parts)}{delay}{manager}: {waits}"


def check_manager_settings(settings: Mapping[str, str], *, synchronous: bool) -> None:
    """Raise ValueError for settings that Patroni does not accept; the message names one."""
    values = typed_manager_settings(settings)
    if values.get(_STRICT) and not synchronous:
        raise ValueError(
            f"manager_settings.{_STRICT}: commits wait for no standby with this mode; use mode ="
            ' "on"'
        )
    ttl, loop_wait, retry = (
        int(values.get(name, _MANAGER_DEFAULTS[name])) for name in _MANAGER_DEFAULTS
    )
    if loop_wait + 2 * retry > ttl:
        given = next(name for name in (*_MANAGER_DEFAULTS, *settings) if name in settings)
        raise ValueError(
            f"manager_settings.{given}: Patroni requires loop_wait + 2 * retry_timeout <= ttl, and"
            f" {loop_wait} + 2 * {retry} is more than {ttl}"
        )


def typed_manager_settings(settings: Mapping[str, str]) -> dict[str, int | bool]:
    """Return the settings in Patroni's types: seconds, bytes, Booleans; ValueError for others."""
    return {name: _typed(name, value) for name, value in settings.items()}


def manager_seconds(settings: Mapping[str, str], name: str) -> int:
    """Return ttl, loop_wait or retry_timeout: as given, or Patroni's default."""
    return int(typed_manager_settings(settings).get(name, _MANAGER_DEFAULTS[name]))


def _typed(name: str, value: str) -> int | bool:
    if name in _STANDBY_KEYS:
        raise ValueError(f"manager_settings.{name}: {_STANDBY_KEYS[name]} sets this")
    if name not in _MANAGER_NAMES:
        known = ", ".join(_MANAGER_NAMES)
        raise Misfit(SpecKey("manager_settings"), f': "{name}" is not among the settings {known}')
    if name == _STRICT:
        if value not in _SWITCHES:
            raise ValueError(f'manager_settings.{name}: "{value}" is neither on nor off')
        return _SWITCHES[value]
    if name in _MANAGER_BYTES:
        return _bytes(name, value)
    seconds = value.removesuffix("s").strip()
    if not (seconds.isascii() and seconds.isdecimal()) or len(seconds) > 7:
        raise ValueError(f'manager_settings.{name}: "{value}" is not a number of seconds')
    if int(seconds) < _MANAGER_S_MIN[name]:
        raise ValueError(
            f"manager_settings.{name}: {seconds} s is less than Patroni's minimum,"
            f" {_MANAGER_S_MIN[name]} s"
        )
    return int(seconds)


def _bytes(name: str, value: str) -> int:
    if value.isascii() and value.isdecimal():
        return int(value)
    try:
        return parse_size_bytes(value)
    except ValueError as problem:
        raise ValueError(f"manager_settings.{name}: {problem}") from None
