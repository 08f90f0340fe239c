"""Validation and comparison of setting values by PostgreSQL's own rules.

The rules are those of the server's configuration parser (guc.c): Booleans by unambiguous prefix,
enumerations without regard to case, numbers with an optional unit that is converted to the
setting's own. Strings are not checked here; the server checks them when they are applied.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from pgdyno.errors import UsageError
from pgdyno.spec.active_settings import choice_of, switch_of

_MEMORY_BYTES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_TIME_US = {"us": 1, "ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9, "d": 8.64e10}
_NUMBER = re.compile(r"\s*([-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))\s*(.*)")
_SHOWN_AS = {("wal_compression", "on"): "pglz"}
"""A setting and a listed value of it → the listed value that the server takes it for; guc_tables.c
has no other such pair from version 14 to 18."""
RESERVED = frozenset(
    (
        "allow_alter_system",
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "listen_addresses",
        "port",
        "unix_socket_directories",
    )
)
"""Settings that pgdyno depends on to connect to a server and change it; never changed."""


class Setting(Struct, frozen=True):
    """A setting as pg_settings describes it in a new connection."""

    name: str
    value: str
    """Value in ``unit``, as pg_settings shows it."""
    unit: str | None
    vartype: str
    min: str | None
    max: str | None
    enumvals: tuple[str, ...]
    context: str
    """internal, postmaster, sighup, superuser-backend, backend, superuser or user."""
    source: str
    pending_restart: bool

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Setting:
        """Return the setting in a row of describe_settings.sql."""
        name, value, unit, vartype, low, high, enumvals, context, source, pending = row
        choices = tuple(enumvals or ())
        return cls(name, value, unit, vartype, low, high, choices, context, source, pending)


def check_value(setting: Setting, value: str, version: str) -> None:
    """Raise UsageError if a server of major version ``version`` would reject ``value``."""
    refuse_reserved(setting.name)
    if setting.context == "internal":
        raise UsageError(
            f"{setting.name}: cannot be changed: it is fixed by the build or by initdb",
            code="setting-fixed",
        )
    if setting.vartype == "bool":
        if switch_of(value) is None:
            raise not_one_of(setting.name, value, ("on", "off"), version)
    elif setting.vartype == "enum":
        _check_enum(setting, value, version)
    elif setting.vartype in ("integer", "real"):
        _check_range(setting, value)


def refuse_reserved(name: str) -> None:
    """Raise UsageError for a setting that pgdyno itself depends on."""
    if name.lower() in RESERVED:
        raise UsageError(f"{name}: pgdyno needs this setting as it is", code="setting-reserved")


def not_one_of(name: str, value: str, choices: Iterable[str], version: str) -> UsageError:
    """Return the error for a value that is not in ``choices``; lists ``on`` and ``off`` first."""
    ordered = sorted(choices, key=lambda one: {"on": 0, "off": 1}.get(one, 2))
    switch = {"on", "off"} <= set(ordered)
    return UsageError(
        f'{name}: "{value}" is not one of {", ".join(ordered)}',
        code="setting-value",
        hint=f"PostgreSQL {version} on this server also takes true, false, yes, no, 1, 0"
        if switch
        else None,
    )


def unknown_setting(name: str, known: Iterable[str], version: str) -> UsageError:
    """Return the error for an unknown setting, with similar names as a hint."""
    near = difflib.get_close_matches(name.lower(), list(known), n=3, cutoff=0.7)
    return UsageError(
        f"{name}: PostgreSQL {version} has no such setting",
        code="setting-unknown",
        hint=f"did you mean {' or '.join(near)}?" if near else None,
    )


def in_base_unit(setting: Setting, value: str) -> float:
    """Return a number, with or without a unit, in the setting's own unit; UsageError if invalid."""
    match = _NUMBER.fullmatch(value)
    if match is None:
        raise UsageError(f'{setting.name}: "{value}" is not a number', code="setting-value")
    digits, unit = match[1], match[2].rstrip()
    number = _number(digits, setting.vartype)
    if unit:
        number = _rounded(setting, number * _unit_ratio(setting, value, unit), unit)
    return number if setting.vartype == "real" else float(round(number))


def _number(digits: str, vartype: str) -> float:
    """Return the number as strtol reads it: integers may be hexadecimal, or octal after a 0."""
    if "x" in digits.lower():
        return float(int(digits, 16))
    octal = vartype == "integer" and re.fullmatch(r"[-+]?0[0-7]+", digits)
    return float(int(digits, 8) if octal else float(digits))


def _rounded(setting: Setting, number: float, unit: str) -> float:
    """Return ``number`` rounded to the next smaller unit, as the server reads 0.1GB as 102MB."""
    table = _MEMORY_BYTES if unit in _MEMORY_BYTES else _TIME_US
    smaller = [name for name in table if table[name] < table[unit]]
    if not smaller:
        return number
    unit_size = _unit_ratio(setting, "", smaller[-1])
    return round(number / unit_size) * unit_size


def same_value(setting: Setting, value: str) -> bool:
    """True if ``value``, which must be valid, equals the setting's present value."""
    if setting.vartype == "bool":
        return switch_of(value) == switch_of(setting.value)
    if setting.vartype == "real":  # Shown with 6 digits.
        return f"{in_base_unit(setting, value):.6g}" == f"{float(setting.value):.6g}"
    if setting.vartype == "integer":
        return in_base_unit(setting, value) == in_base_unit(setting, setting.value)
    if setting.vartype == "enum":
        words = [_spelling(setting, each) for each in (value, setting.value)]
        return words[0] == words[1]
    return value == setting.value


def as_shown(setting: Setting, value: str) -> str:
    """Return ``value`` as pg_settings would show it, as far as that is known here."""
    if setting.vartype == "bool":
        return "on" if switch_of(value) else "off"
    if setting.vartype in ("integer", "real"):
        return (
            f"{in_base_unit(setting, value):.6g}"
            if setting.vartype == "real"
            else (f"{in_base_unit(setting, value):.0f}")
        )
    return _spelling(setting, value) if setting.vartype == "enum" else value


def unquoted_list(value: str) -> str:
    """Return a list value without spaces and quotes around its elements; other texts unchanged."""
    return ",".join(element.strip().strip("\"'") for element in value.split(","))


def _spelling(setting: Setting, value: str) -> str:
    """Return an enumeration's value in lower case, synonyms as the word that the server shows."""
    word = value.strip().lower()
    if word not in setting.enumvals:
        word = choice_of(word)
    return _SHOWN_AS.get((setting.name, word), word)


def _check_enum(setting: Setting, value: str, version: str) -> None:
    word = value.strip().lower()
    choices = {choice.lower() for choice in setting.enumvals}
    # Enumerations that replaced a Boolean also accept its other spellings, unlisted.
    switch = {"on", "off"} <= choices and choice_of(word) in ("on", "off")
    if word not in choices and not switch:
        raise not_one_of(setting.name, value, setting.enumvals, version)


def _check_range(setting: Setting, value: str) -> None:
    number = in_base_unit(setting, value)
    low, high = float(setting.min or -math.inf), float(setting.max or math.inf)
    if low <= number <= high:
        return
    raise UsageError(
        f"{setting.name}: {value} is outside {_shown(setting, setting.min)}"
        f" to {_shown(setting, setting.max)}",
        code="setting-range",
    )


def _unit_ratio(setting: Setting, value: str, unit: str) -> float:
    """Return the size of one ``unit`` in the setting's own unit."""
    base = re.fullmatch(r"(\d*)(\w+)", setting.unit or "")
    if base is None:
        raise UsageError(
            f'{setting.name}: "{value}" has a unit, but the setting has none', code="unit"
        )
    table = _MEMORY_BYTES if base[2] in _MEMORY_BYTES else _TIME_US
    if unit not in table:
        raise UsageError(
            f'{setting.name}: "{unit}" is not a unit of this setting',
            code="setting-unit",
            hint=f"units are {', '.join(table)}",
        )
    return table[unit] / (table[base[2]] * int(base[1] or 1))


def _shown(setting: Setting, bound: str | None) -> str:
    """Return a bound in the largest unit that divides it."""
    base = re.fullmatch(r"(\d*)(\w+)", setting.unit or "")
    if bound is None or base is None or float(bound) <= 0 or setting.vartype == "real":
        return bound or "any"
    table = _MEMORY_BYTES if base[2] in _MEMORY_BYTES else _TIME_US
    amount = int(bound) * table[base[2]] * int(base[1] or 1)
    fitting = [(name, size) for name, size in table.items() if amount % size == 0]
    name, size = fitting[-1]
    return f"{amount // size:.0f}{name}"
