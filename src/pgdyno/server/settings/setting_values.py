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
from pgdyno.spec.server_settings import choice_of, switch_of

_MEMORY_BYTES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_TIME_US = {"us": 1, "ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9, "d": 8.64e10}
_INTEGER = r"(?a)\s*([-+]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*))"
"""A number as ``strtol`` reads it: hexadecimal after 0x, octal after 0."""
_REAL = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)", re.ASCII)
"""A number as ``strtod`` reads it, but for hexadecimal ones."""
_CUSTOM = r"[^\x00-@\[-^`{-\x7f][\w$]*(\.[^\x00-@\[-^`{-\x7f][\w$]*)+"
"""A name with dots, whose parts begin with a letter, ``_`` or beyond ASCII. They are given by those
that they do not begin with: a range up to the end of Unicode takes long to compile."""
_ESCAPED = r"''|\\([0-7]{1,3}|.)"
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNLISTED = {
    "client_min_messages": ("debug", "info"),
    "log_min_messages": ("debug",),
    "log_min_error_statement": ("debug",),
    "wal_level": ("archive", "hot_standby"),
}
"""Values that are accepted and that pg_settings does not list (guc_tables.c)."""
_METHODS = ("zstd", "lz4", "pglz")
"""Of wal_compression, the one first that a server of version 19 or later takes "on" for."""
_BEST_METHOD_FROM = 190000
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
    server_version_num: int = 0

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Setting:
        """Return the setting in a row of describe_settings.sql."""
        name, value, unit, vartype, low, high, enumvals, *rest = row
        return cls(name, value, unit, vartype, low, high, tuple(enumvals or ()), *rest)


def check_value(setting: Setting, value: str, version: str) -> None:
    """Raise UsageError if a server of major version ``version`` would reject ``value``."""
    refuse_reserved(setting.name)
    if setting.context == "internal":
        raise UsageError(
            f"{setting.name}: cannot be changed: it is fixed by the build or by initdb",
            code="setting-fixed",
        )
    if setting.vartype == "bool":
        if switch_of(value) is None or value != value.strip():
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


def placeholder(name: str, known: Iterable[str], version: str) -> Setting | None:
    """Return a setting that nothing has defined yet, and whose value a server of this major version
    keeps as text: that of an application, or of a library that is loaded later. None for a name
    that it refuses (``valid_custom_variable_name``), also since a library has reserved its prefix
    (``MarkGUCPrefixReserved``, version 15)."""
    prefix = name.lower().partition(".")[0] + "."
    reserved = int(version) >= 15 and any(each.lower().startswith(prefix) for each in known)
    if reserved or not re.fullmatch(_CUSTOM, name):
        return None
    return Setting(name, "", None, "string", None, None, (), "user", "default", False)


def in_base_unit(setting: Setting, value: str) -> float:
    """Return a number, with or without a unit, in the setting's own unit; UsageError if invalid."""
    read = _number_in(value, setting.vartype)
    if read is None:
        raise UsageError(f'{setting.name}: "{value}" is not a number', code="setting-value")
    number, unit = read
    if unit:
        number = _rounded(setting, number * _unit_ratio(setting, value, unit), unit)
    return number if setting.vartype == "real" else float(round(number))


def _number_in(value: str, vartype: str) -> tuple[float, str] | None:
    """Return number and unit as ``parse_int`` and ``parse_real`` of guc.c read them; None if there
    is no number."""
    found = _REAL.match(value) if vartype == "real" else re.match(_INTEGER, value)
    end = found.end() if found else 0
    if vartype != "real" and value[end : end + 1] in (".", "e", "E"):
        found = _REAL.match(value)
    if found is None:
        return None
    unit = value[found.end() :].strip(" \t\n\r\f\v")
    if found.re is _REAL:
        return float(found[1]), unit
    octal = re.fullmatch(r"([-+]?)0([0-7]+)", found[1])
    return float(int(f"{octal[1]}0o{octal[2]}", 0) if octal else int(found[1], 0)), unit


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
    # guc_tables.c has no other listed value that is shown as another one, from version 14 to 19.
    if (setting.name, word) != ("wal_compression", "on"):
        return word
    newer = setting.server_version_num >= _BEST_METHOD_FROM
    return next((each for each in _METHODS if newer and each in setting.enumvals), "pglz")


def _check_enum(setting: Setting, value: str, version: str) -> None:
    word = value.lower()
    choices = {choice.lower() for choice in setting.enumvals}
    # Enumerations that replaced a Boolean also accept its other spellings, unlisted.
    switch = {"on", "off"} <= choices and choice_of(word) in ("on", "off") and word == word.strip()
    if word not in choices and not switch and word not in _UNLISTED.get(setting.name, ()):
        raise not_one_of(setting.name, value, setting.enumvals, version)


def _check_range(setting: Setting, value: str) -> None:
    number = in_base_unit(setting, value)
    low, high = float(setting.min or -math.inf), float(setting.max or math.inf)
    if low <= number <= high:
        return
    read = _number_in(value, setting.vartype)
    counted = setting.unit if read and not read[1] else None
    raise UsageError(
        f"{setting.name}: {value} is outside {_shown(setting, setting.min)}"
        f" to {_shown(setting, setting.max)}",
        code="setting-range",
        hint=f"without a unit it is a number of {counted}" if counted else None,
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
            hint=_unit_hint(value, unit, table),
        )
    return table[unit] / (table[base[2]] * int(base[1] or 1))


def _unit_hint(value: str, unit: str, table: Iterable[str]) -> str:
    """Return how to write a unit: it counts whether its letters are small."""
    units = [*table]
    meant = [each for each in units if each.lower() == unit.lower()]
    meant += [each for each in units if each.lower() == f"{unit.lower()}b"]
    found = f"write {value.strip().removesuffix(unit)}{meant[0]}; " if meant else ""
    return f"{found}units are {', '.join(units)}"


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


def unescaped(quoted: str) -> str:
    """Return the text between quotes of a configuration file as the server reads it."""
    return re.sub(_ESCAPED, _character, quoted)


def _character(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped is None:
        return "'"
    if escaped[0] in "01234567":
        return chr(int(escaped, 8) & 0xFF)
    return _CONTROLS.get(escaped, escaped)
