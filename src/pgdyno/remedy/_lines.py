"""Lines to type to apply a change permanently and to undo it: SQL statements and SQL comments."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from pgdyno.spec.change import Change

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def lines_to_apply(
    change: Change, *, at_start: Collection[str], unknown: bool, manual: Sequence[str]
) -> list[str]:
    """Return the lines to apply ``change``. ``at_start``: its settings that are read only at server
    start; ``unknown``: for some settings that is not known; ``manual``: further lines, for
    what no statement can do."""
    lines = [f"ALTER SYSTEM SET {_name(n)} = {_value(v)};" for n, v in change.settings.items()]
    lines += _activation_lines(change.settings, at_start, unknown=unknown)
    for table, options in change.table_options.items():
        lines.append(f"ALTER TABLE {_relation(table)} SET ({_options(options)});")
    lines += [_pool_line(group, size) for group, size in change.pool_max.items()]
    lines += [f"-- client group {g}: {n} clients" for g, n in change.clients.items()]
    lines += [f"-- client group {g}: {f:g} times the rate" for g, f in change.rate.items()]
    return [*lines, *manual]


def lines_to_undo(
    change: Change, before: Change, *, at_start: Collection[str], unknown: bool
) -> list[str]:
    """Return the lines to undo ``change``: restore ``before`` where known, else reset, so that the
    configuration file or the default applies."""
    lines = [
        f"ALTER SYSTEM SET {_name(name)} = {_value(before.settings[name])};"
        if name in before.settings
        else f"ALTER SYSTEM RESET {_name(name)};"
        for name in change.settings
    ]
    lines += _activation_lines(change.settings, at_start, unknown=unknown)
    for table, options in change.table_options.items():
        lines += _table_undo(table, options, before.table_options.get(table, {}))
    for group in change.pool_max:
        if group in before.pool_max:
            lines.append(_pool_line(group, before.pool_max[group]))
        else:
            lines.append(f"-- client pool of {group}: restore its previous size")
    lines += [f"-- client group {group}: restore its previous count" for group in change.clients]
    lines += [f"-- client group {group}: restore its previous rate" for group in change.rate]
    lines += [f"-- spec: {key}: restore its previous value" for key in change.spec]
    return lines


def _activation_lines(
    settings: Collection[str], at_start: Collection[str], *, unknown: bool
) -> list[str]:
    if not settings:
        return []
    lines = []
    if unknown:
        lines.append("SELECT pg_reload_conf();  -- or restart, if the setting needs it")
    elif set(settings) - set(at_start):
        lines.append("SELECT pg_reload_conf();")
    if at_start:
        read = "is" if len(at_start) == 1 else "are"
        lines.append(
            f"-- then restart PostgreSQL: {', '.join(at_start)} {read} read only at server start"
        )
    return lines


def _pool_line(group: str, size: int | None) -> str:
    if size is None:
        return f"-- client pool of {group}: no limit; each client has its own connection"
    return (
        f"-- client pool of {group}: at most {size} connections (HikariCP maximumPoolSize={size},"
        f" DBCP maxTotal={size}, PgBouncer default_pool_size={size})"
    )


def _table_undo(table: str, options: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Return SET for options with a known previous value, RESET for the others."""
    known = {name: before[name] for name in options if name in before}
    unknown = [_name(name) for name in options if name not in before]
    lines = []
    if known:
        lines.append(f"ALTER TABLE {_relation(table)} SET ({_options(known)});")
    if unknown:
        lines.append(f"ALTER TABLE {_relation(table)} RESET ({', '.join(unknown)});")
    return lines


def _name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f'"{name}" is not the name of a setting')
    return name


def _value(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(
        f"{_name(name)} = {value if _NUMBER.fullmatch(value) else _value(value)}"
        for name, value in options.items()
    )


def _relation(table: str) -> str:
    """Return ``schema.name`` with identifiers quoted where needed."""
    return ".".join(
        part if re.fullmatch(r"[a-z_][a-z0-9_]*", part) else '"' + part.replace('"', '""') + '"'
        for part in table.split(".", 1)
    )
