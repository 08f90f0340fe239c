"""What a remedy is: a named kind of change with its price, and how to apply and undo it by hand.

Durability classes, what may be lost after a crash of the operating system or a power cut:

    D0   nothing that was acknowledged
    D1   the last acknowledged commits; the database stays consistent
    D2   the consistency of the database
    D3   the whole database

The catalogue says what a change costs; what it gains is predicted by ``diagnose`` and measured by
a trial. Whether a value lies in the range of a server is for the server room to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pgdyno.spec.change import Change

DurabilityClass = Literal["D0", "D1", "D2", "D3"]
Kind = Literal["reload", "restart", "client", "table", "layout"]

_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Remedy:
    """One entry of the price list.

    ``settings`` are the settings that it may change, the first being the one it is named after;
    empty for a remedy of the kind "client", "table" or "layout".
    """

    id: str
    summary: str
    """What it does, in half a sentence, for lists."""
    kind: Kind
    durability_class: DurabilityClass
    bound: str
    """What may be lost at most, as PostgreSQL's documentation has it."""
    price: str
    """What it costs even where nothing can be lost."""
    settings: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    """What to do by hand besides, as comments in SQL; for what no statement can do."""
    checkpoint_bound: bool = False
    """The effect shows, or its price falls due, only over whole checkpoint cycles."""
    guards: bool = False
    """It keeps the server from failing and need gain nothing: a trial is to show what it costs."""

    def lines_to_apply(self, change: Change) -> list[str]:
        """What to type to have this change for good: SQL, comments in SQL, or a pool's settings."""
        lines = [f"ALTER SYSTEM SET {_name(n)} = {_value(v)};" for n, v in change.settings.items()]
        lines += self._lines_in_force(bool(change.settings))
        for table, options in change.table_options.items():
            lines.append(f"ALTER TABLE {_relation(table)} SET ({_options(options)});")
        lines += [_pool_line(group, size) for group, size in change.pool_max.items()]
        lines += [f"-- client group {g}: {n} clients" for g, n in change.clients.items()]
        return [*lines, *self.steps]

    def lines_to_undo(self, change: Change, before: Change | None = None) -> list[str]:
        """What to type to be rid of it: back to ``before`` where known, else to what comes next
        in PostgreSQL's own order (the configuration file, then the default)."""
        earlier = before or Change()
        lines = [
            f"ALTER SYSTEM SET {_name(name)} = {_value(earlier.settings[name])};"
            if name in earlier.settings
            else f"ALTER SYSTEM RESET {_name(name)};"
            for name in change.settings
        ]
        lines += self._lines_in_force(bool(change.settings))
        for table, options in change.table_options.items():
            lines += _table_undo(table, options, earlier.table_options.get(table, {}))
        for group in change.pool_max:
            if group in earlier.pool_max:
                lines.append(_pool_line(group, earlier.pool_max[group]))
            else:
                lines.append(f"-- client pool of {group}: back to its earlier size")
        lines += [f"-- client group {group}: back to its earlier count" for group in change.clients]
        return lines

    def _lines_in_force(self, has_settings: bool) -> list[str]:
        if not has_settings:
            return []
        if self.kind == "restart":
            return ["-- then restart PostgreSQL: this setting is read at its start only"]
        return ["SELECT pg_reload_conf();"]


def _pool_line(group: str, size: int | None) -> str:
    if size is None:
        return f"-- client pool of {group}: no limit; each client has its own connection"
    return (
        f"-- client pool of {group}: at most {size} connections (HikariCP maximumPoolSize={size},"
        f" DBCP maxTotal={size}, PgBouncer default_pool_size={size})"
    )


def _table_undo(table: str, options: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """SET what had a value before, RESET what had none."""
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
    """``schema.name`` with what needs quotes in quotes."""
    return ".".join(
        part if re.fullmatch(r"[a-z_][a-z0-9_]*", part) else '"' + part.replace('"', '""') + '"'
        for part in table.split(".", 1)
    )
