"""The options of ``pgdyno compare`` that measure a change, as a user types them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import columns_of, columns_text, literal, quoted, relation, trial_index

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
        for make, undo in _statements(change, before or {}):
            words += ["--sql", make, "--undo-sql", undo]
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
    for table, columns in change.indexes.items():
        yield f"workload.indexes.{table}", columns
    for table, options in change.table_options.items():
        for name, value in options.items():
            yield f"workload.table_options.{table}.{name}", value


def _statements(change: Change, before: Options) -> Iterator[tuple[str, str]]:
    """Yield the statement for each table, and the one that undoes it."""
    for table, columns in change.indexes.items():
        schema, index = table.rpartition(".")[0], trial_index(table, columns)
        listed = columns_text(columns_of(columns))
        make = f"create index {quoted(index)} on {relation(table)} ({listed})"
        yield make, f"drop index {relation(f'{schema}.{index}' if schema else index)}"
    for table, options in change.table_options.items():
        known = {n: before[table][n] for n in options if n in before.get(table, {})}
        unset = [name for name in options if name not in known]
        if known:
            yield _set(table, {n: options[n] for n in known}), _set(table, known)
        if unset:
            names = ", ".join(map(quoted, unset))
            undo = f"alter table {relation(table)} reset ({names})"
            yield _set(table, {n: options[n] for n in unset}), undo


def _set(table: str, options: Mapping[str, str]) -> str:
    values = ", ".join(f"{quoted(n)} = {literal(value)}" for n, value in options.items())
    return f"alter table {relation(table)} set ({values})"
