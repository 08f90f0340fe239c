"""Settings of Patroni, the failover manager, under its own names, and the rules that they follow.

Bounds and rule are those of Patroni's documentation, "Dynamic Configuration Settings": Patroni
itself replaces values that break them, or never becomes stable.
"""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.spec._base import Key, Misfit
from pgdyno.spec.units import parse_size_bytes

MANAGED_STANDBYS = 2
"""Standbys of a managed cluster unless their number is given: three nodes."""
_DEFAULTS = {"ttl": 30, "loop_wait": 10, "retry_timeout": 10}
_S_MIN = {"ttl": 20, "loop_wait": 1, "retry_timeout": 3, "primary_start_timeout": 0}
_BYTES = ("maximum_lag_on_failover",)
_SWITCHES = {"on": True, "true": True, "off": False, "false": False}
_STRICT = "synchronous_mode_strict"
_NAMES = (*_S_MIN, *_BYTES, _STRICT)
_OWNED = {
    "synchronous_mode": "standby.mode",
    "synchronous_node_count": "standby.quorum",
}


def check_settings(settings: Mapping[str, str], *, synchronous: bool) -> None:
    """Raise ValueError for settings that Patroni does not accept; the message names one."""
    values = typed_settings(settings)
    if values.get(_STRICT) and not synchronous:
        raise ValueError(
            f"manager_settings.{_STRICT}: commits wait for no standby with this mode; use mode ="
            ' "on"'
        )
    ttl, loop_wait, retry = (int(values.get(name, _DEFAULTS[name])) for name in _DEFAULTS)
    if loop_wait + 2 * retry > ttl:
        given = next(name for name in (*_DEFAULTS, *settings) if name in settings)
        raise ValueError(
            f"manager_settings.{given}: Patroni requires loop_wait + 2 * retry_timeout <= ttl, and"
            f" {loop_wait} + 2 * {retry} is more than {ttl}"
        )


def typed_settings(settings: Mapping[str, str]) -> dict[str, int | bool]:
    """Return the settings in Patroni's types: seconds, bytes, Booleans; ValueError for others."""
    return {name: _typed(name, value) for name, value in settings.items()}


def seconds_of(settings: Mapping[str, str], name: str) -> int:
    """Return ttl, loop_wait or retry_timeout: as given, or Patroni's default."""
    return int(typed_settings(settings).get(name, _DEFAULTS[name]))


def _typed(name: str, value: str) -> int | bool:
    if name in _OWNED:
        raise ValueError(f"manager_settings.{name}: {_OWNED[name]} sets this")
    if name not in _NAMES:
        known = ", ".join(_NAMES)
        raise Misfit(Key("manager_settings"), f': "{name}" is not among the settings {known}')
    if name == _STRICT:
        if value not in _SWITCHES:
            raise ValueError(f'manager_settings.{name}: "{value}" is neither on nor off')
        return _SWITCHES[value]
    if name in _BYTES:
        return _bytes(name, value)
    seconds = value.removesuffix("s").strip()
    if not (seconds.isascii() and seconds.isdecimal()) or len(seconds) > 7:
        raise ValueError(f'manager_settings.{name}: "{value}" is not a number of seconds')
    if int(seconds) < _S_MIN[name]:
        raise ValueError(
            f"manager_settings.{name}: {seconds} s is less than Patroni's minimum, {_S_MIN[name]} s"
        )
    return int(seconds)


def _bytes(name: str, value: str) -> int:
    if value.isascii() and value.isdecimal():
        return int(value)
    try:
        return parse_size_bytes(value)
    except ValueError as problem:
        raise ValueError(f"manager_settings.{name}: {problem}") from None
