"""Lines to type for a change: SQL statements and comments that apply it permanently or undo it, and
the options of ``pgdyno compare`` that measure it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from pgdyno.escaping import visible
from pgdyno.spec.change import Change
from pgdyno.spec.front import CONNECTOR_NAMES, OWN_NAMES
from pgdyno.spec.front import TITLES as TITLES_OF_POOLS
from pgdyno.spec.index_text import each_index, index_text, trial_statements
from pgdyno.spec.pooler import TITLES
from pgdyno.spec.sql_text import literal, quoted, relation

_NAME = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
_NUMBER = r"-?[0-9]+(\.[0-9]+)?"


def lines_to_apply(
    change: Change, *, at_start: Collection[str], unknown: bool, manual: Sequence[str]
) -> list[str]:
    """Return the lines to apply ``change``. ``at_start``: its settings that are read only at server
    start; ``unknown``: for some settings that is not known; ``manual``: further lines, for
    what no statement can do."""
    lines = [f"ALTER SYSTEM SET {_name(n)} = {literal(v)};" for n, v in change.settings.items()]
    lines += _activation_lines(change.settings, at_start, unknown=unknown)
    for table, options in change.table_options.items():
        lines.append(f"ALTER TABLE {relation(table)} SET ({_options(options)});")
    for table, text in each_index(change.indexes):
        name, _ = _index_name(table, text)
        index = index_text(text)
        lines += [f"CREATE EXTENSION IF NOT EXISTS {each};" for each in index.extensions]
        lines.append(f"CREATE INDEX CONCURRENTLY {name} ON {relation(table)} {index.sql};")
    lines += _sql_lines(change.sql.get("make", ()))
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
        f"ALTER SYSTEM SET {_name(name)} = {literal(before.settings[name])};"
        if name in before.settings
        else f"ALTER SYSTEM RESET {_name(name)};"
        for name in change.settings
    ]
    lines += _activation_lines(change.settings, at_start, unknown=unknown)
    for table, options in change.table_options.items():
        lines += _table_undo(table, options, before.table_options.get(table, {}))
    for table, text in each_index(change.indexes):
        _, name = _index_name(table, text)
        lines.append(f"DROP INDEX CONCURRENTLY {name};")
    lines += _sql_lines(change.sql.get("undo", ()))
    for group in change.pool_max:
        if group in before.pool_max:
            lines.append(_pool_line(group, before.pool_max[group]))
        else:
            lines.append(f"-- client pool of {group}: restore its previous size")
    lines += [f"-- client group {group}: restore its previous count" for group in change.clients]
    lines += [f"-- client group {group}: restore its previous rate" for group in change.rate]
    return [*lines, *_keys_undo(change.spec, before.spec)]


def _keys_undo(keys: Collection[str], before: Mapping[str, str]) -> list[str]:
    """Return the lines for keys of the spec; no server returns to a version before its own."""
    if "server.version" in keys:
        return ["-- there is no way back but a backup from before the upgrade, or a dump"]
    return [key_line(key, before.get(key)) for key in keys]


def key_line(key: str, value: str | None) -> str:
    """Return the line for a key of the spec; None: its previous value is not known."""
    if key == "pooler.kind" and value is not None:
        kind = TITLES.get(value)
        return (
            f"-- in front of the server: {kind}" if kind else "-- in front of the server: nothing"
        )
    where, _, name = key.partition(".")
    if where == "front":
        return _front_line(name, value)
    named = f"-- pooler: {name}" if where == "pooler" else f"-- spec: {key}"
    return f"{named}: restore its previous value" if value is None else f"{named} = {value}"


def _front_line(name: str, value: str | None) -> str:
    """Return the line for a key of the web application, with the names that its parts have."""
    if value is None:
        return f"-- web application: {name}: restore its previous value"
    pools = [f"{TITLES_OF_POOLS[pool]} {names[name]}" for pool, names in OWN_NAMES.items()
             if name in names]  # fmt: skip
    also = f" ({', '.join(pools)})" if pools else ""
    return f"-- web application: {CONNECTOR_NAMES.get(name, name)} = {value}{also}"


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


def _sql_lines(statements: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the user's statements as they were written, each with its semicolon."""
    for statement in statements:
        *lines, last = visible(statement.strip()).rstrip("; ").splitlines()
        yield from lines
        # Behind a comment, a semicolon would be part of it.
        yield from (last, ";") if "--" in last else (f"{last};",)


def _table_undo(table: str, options: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Return SET for options with a known previous value, RESET for the others."""
    known = {name: before[name] for name in options if name in before}
    unknown = [_name(name) for name in options if name not in before]
    lines = []
    if known:
        lines.append(f"ALTER TABLE {relation(table)} SET ({_options(known)});")
    if unknown:
        lines.append(f"ALTER TABLE {relation(table)} RESET ({', '.join(unknown)});")
    return lines


def _name(name: str) -> str:
    if re.fullmatch(_NAME, name) is None:
        raise ValueError(f'"{name}" is not the name of a setting')
    return name


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(
        f"{_name(name)} = {value if re.fullmatch(_NUMBER, value) else literal(value)}"
        for name, value in options.items()
    )


def _index_name(table: str, text: str) -> tuple[str, str]:
    """Return the name of an index as PostgreSQL makes up names, alone and with the table's
    schema."""
    schema, _, name = table.rpartition(".")
    index = "_".join((name, *index_text(text).words, "idx"))
    return quoted(index), relation(f"{schema}.{index}" if schema else index)


Options = Mapping[str, Mapping[str, str]]
"""Table → its storage parameters."""


def compare_words(change: Change, *, existing: bool, before: Options | None = None) -> list[str]:
    """Return the options for settings, tables and keys of the spec, on an ``existing`` server or
    one that pgdyno starts.

    Tables of an existing server are changed by SQL, whose undo restores the storage parameters that
    they had ``before``.
    """
    words = [w for name, value in change.settings.items() for w in ("--set", f"{name}={value}")]
    if existing:
        for makes, undo in _statements(change, before or {}):
            words += [word for make in makes for word in ("--sql", make)]
            words += ["--undo-sql", undo]
    else:
        for key, value in _keys_of_tables(change):
            words += ["--vary", f"{key}={value}"]
    for make in change.sql.get("make", ()):
        words += ["--sql", make]
    for undo in change.sql.get("undo", ()):
        words += ["--undo-sql", undo]
    for key, value in change.spec.items():
        words += ["--vary", f"{key}={value}"]
    return [*words, "--apply"] if existing and (words or change.sql) else words


def _keys_of_tables(change: Change) -> Iterator[tuple[str, str]]:
    for table, text in change.indexes.items():
        yield f"workload.indexes.{table}", text
    for table, options in change.table_options.items():
        for name, value in options.items():
            yield f"workload.table_options.{table}.{name}", value


def _statements(change: Change, before: Options) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the statements for each index and table, and the one that undoes them."""
    for table, text in each_index(change.indexes):
        yield trial_statements(table, text)
    for table, options in change.table_options.items():
        known = {n: before[table][n] for n in options if n in before.get(table, {})}
        unset = [name for name in options if name not in known]
        if known:
            yield (_set(table, {n: options[n] for n in known}),), _set(table, known)
        if unset:
            names = ", ".join(map(quoted, unset))
            undo = f"alter table {relation(table)} reset ({names})"
            yield (_set(table, {n: options[n] for n in unset}),), undo


def _set(table: str, options: Mapping[str, str]) -> str:
    values = ", ".join(f"{quoted(n)} = {literal(value)}" for n, value in options.items())
    return f"alter table {relation(table)} set ({values})"
