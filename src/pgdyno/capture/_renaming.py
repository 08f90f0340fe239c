"""A capture without the names of its source: schemas, tables, columns and all else that SQL names.

A name becomes the same new one wherever it is: in tables, statements and notes. In texts each
identifier is replaced that is not a word of SQL, aliases too, so that a text keeps its meaning
whatever its names are; names that are words of SQL themselves, such as date, tell nothing and are
kept. Each statement is then planned on a schema with the new names, and left out if its parameters
do not belong to the same columns as before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from pgdyno.capture._calls import Calls
from pgdyno.capture._code import is_of_no_schema
from pgdyno.capture._parameters import Unplannable, planned
from pgdyno.capture._queries import rows_of
from pgdyno.capture._recursion import Recursion
from pgdyno.capture._schema import EmptySchema
from pgdyno.clone.capture_file import Capture, Reference, Scans, Table, sequence_name
from pgdyno.clone.keys import Keys
from pgdyno.clone.schema import labels_of
from pgdyno.numbers import counted
from pgdyno.spec.sql_text import NAME, folded, quoted

_TOKEN = re.compile(
    r"""
      \$ (?: \d+ | (?: [^\W\d] \w* )? \$ ) | \d[\w.]*
    | (?P<before> (?: [uU]& | [eEbBxXnN] )? ' ) (?P<text> (?: [^'\\] | \\. | '' )* ) '
    | (?P<name> (?: [uU]& )? " (?: [^"] | "" )+ " | [^\W\d] [\w$]* )
    """,
    re.VERBOSE,
)
_WRITTEN = re.compile(r""""(?:[^"]|"")+"|\w+(?:\.\w+)+|\w+(?=\()|\w*[^\W\d]_\w*""")
"""Names in a message of the server: with quotes, points, parentheses or underscores."""
_CAPITAL = re.compile(r"(?<!^)([A-Z])")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
"""PostgreSQL folds these letters alone, where characters have several bytes."""
_KEPT = frozenset(
    (
        *("id", "public", "pg_catalog", "information_schema", "excluded", "old", "new", ""),
        *("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"),
    )
)
"""Names with a meaning of their own."""
_TRIGGER = re.compile(rf"CREATE (?:CONSTRAINT )?TRIGGER ({NAME})")
_EXPRESSION, _PARTIAL = "(expression)", " (partial)"
_PLPGSQL = """
diagnostics dump elseif elsif errcode error exit foreach found get hint info loop message notice
others perform pg_context pg_exception_context pg_exception_detail pg_exception_hint plpgsql raise
reverse row_count rowtype slice sqlerrm sqlstate stacked tg_argv tg_level tg_name tg_nargs tg_op
tg_relid tg_relname tg_table_name tg_table_schema tg_when warning while alias array assert
constraint_name column_name constant datatype debug exception log open query result_oid
returned_sqlstate schema_name strict table_name use_column use_variable variable_conflict
message_text pg_datatype_name
"""
"""Words of PL/pgSQL, some of SQL too."""
_OWN = ("pgdyno_", "pg_")
"""Beginnings of the names of a clone's types, and of the server's own names."""
_AS_THEY_ARE = frozenset(("format", "made_by", "base", "options", "gaps", "findings", "settings"))
"""Fields without names."""


def renamed(capture: Capture) -> Capture:
    """Return a capture with other names."""
    with EmptySchema(()) as schema:
        words = {str(row["word"]) for row in rows_of(schema.connection, "sql_words")}
    found = with_names(capture, Names(capture, words | _plpgsql_words()))
    wrong = set()
    with EmptySchema(found.tables, found.functions, found.views) as schema:
        calls, recursion = Calls(schema.connection, schema.by_name), Recursion(schema)
        for number, each in enumerate(found.statements):
            try:
                _, parameters = planned(schema.connection, each.text, schema.by_name)
            except Unplannable:
                wrong.add(number)
                continue
            known = recursion.parameters(each.text, parameters)
            if known is None or calls.resolved(each.text, known) != each.parameters:
                wrong.add(number)
    found = replace(
        found,
        tables=schema.tables,
        functions=schema.functions,
        views=schema.views,
        gaps=(*found.gaps, *schema.gaps),
    )
    return _without(found, wrong) if wrong else found


class Names:
    """New names by the old ones, as the catalogue has them."""

    def __init__(self, capture: Capture, words: Collection[str]) -> None:
        """``words`` are those of SQL."""
        self._words = frozenset(words) | _KEPT
        self._new: dict[str, str] = {}
        self._count: Counter[str] = Counter()
        self._tables: dict[str, str] = {}
        counts = {column.labels for table in capture.tables for column in table.columns}
        self._labels = {label for count in counts - {0} for label in labels_of(count)}
        self._take(capture)
        self._take_triggers(capture)
        for table in capture.tables:
            new = f"{self.of(table.schema)}.{self.of(table.name)}"
            self._tables[table.full_name] = new
            for each in table.columns:
                if each.has_sequence:
                    sequence = sequence_name(self.of(table.name), self.of(each.name))
                    self._new.setdefault(sequence_name(table.name, each.name), sequence)

    def _take(self, value: object) -> None:
        """Give new names to all that has one."""
        if isinstance(value, Struct):
            kind = type(value).__name__[0].lower()
            self.of(getattr(value, "schema", ""), "s")
            self.of(getattr(value, "name", ""), kind)
            for each in fields(value):
                self._take(getattr(value, each.name))
        elif isinstance(value, tuple):
            for item in value:
                self._take(item)

    def _take_triggers(self, capture: Capture) -> None:
        """Give new names to triggers, which fire in the order of these."""
        texts = (each for table in capture.tables for each in table.triggers)
        found = (_TRIGGER.match(each) for each in texts)
        names = sorted({folded(each[1]) for each in found if each is not None})
        for number, each in enumerate(names):
            if each not in self._words:
                self._new.setdefault(each, f"trigger_{number:05d}")

    def of(self, name: str, kind: str = "a") -> str:
        """Return the new name of a name, one that begins with ``kind`` if it has none yet."""
        if name in self._words or name.startswith(_OWN):
            return name
        if name not in self._new:
            free = ""
            while not free or free in self._words:
                self._count[kind] += 1
                free = f"{kind}{self._count[kind]}"
            self._new[name] = free
        return self._new[name]

    def of_text(self, text: str) -> str:
        """Return a name, a table with its schema, or SQL with new names."""
        if text in self._new or text in self._words:
            return self.of(text)
        return self._tables.get(text) or _TOKEN.sub(self._token, text)

    def of_columns(self, listed: str) -> str:
        """Return the columns of an index, as ``Scans`` has them, with new names."""
        columns = listed.removesuffix(_PARTIAL)
        names = (each if each == _EXPRESSION else self.of(each) for each in columns.split(", "))
        return ", ".join(names) + listed[len(columns) :]

    def _literal(self, text: str) -> str:
        """Return a text of code, with new names if it is one."""
        if text in self._labels or (text not in self._new and is_of_no_schema(text)):
            return text
        return ".".join(self.of(each.strip('"')) for each in text.split("."))

    def _token(self, found: re.Match[str]) -> str:
        if found["text"] is not None:
            return f"{found['before']}{self._literal(found['text'])}'"
        token = found["name"]
        if token is None:
            return found[0]
        is_quoted = token.endswith('"')
        name = folded(token) if is_quoted else token.translate(_LOWER)
        new = self.of(name)
        if new == name:
            return token
        before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
        space = re.compile(r"\w")
        return " " * bool(space.match(before)) + new + " " * bool(space.match(after))

    def of_note(self, note: str) -> str:
        """Return a note with new names: they are behind its first parenthesis or colon."""
        place = re.search(r"[(:]", note)
        if place is None:
            return note
        beginning, details = note[: place.start()], note[place.start() :]
        for old in sorted(self._new, key=len, reverse=True):
            for written in (quoted(old), old):
                if written in details:
                    pattern = rf"(?<!\w){re.escape(written)}(?!\w)"
                    details = re.sub(pattern, self._new[old], details)
        return beginning + _WRITTEN.sub(lambda found: self.of_text(found[0]), details)


def _plpgsql_words() -> set[str]:
    """Return the words of PL/pgSQL, with the names of errors: unique_violation …"""
    from psycopg import errors

    names = (name for name in vars(errors) if hasattr(getattr(errors, name), "sqlstate"))
    return {*_PLPGSQL.split(), *(_CAPITAL.sub(r"_\1", each).lower() for each in names)}


def with_names(capture: Capture, names: Names) -> Capture:
    """Return a capture with new names, with the references that only names show."""
    guessed = Keys(capture.tables).guessed
    shown = replace(capture, tables=tuple(_with_likely(each, guessed) for each in capture.tables))
    found: Capture = _changed(shown, names)
    return replace(found, gaps=tuple(map(names.of_note, capture.gaps)))


def _with_likely(table: Table, guessed: dict[tuple[str, str], tuple[str, str]]) -> Table:
    likely = (
        Reference((column,), *_to(guessed[of, column]))
        for of, column in guessed
        if of == table.full_name
    )
    return replace(table, likely=tuple(likely))


def _to(place: tuple[str, str]) -> tuple[str, tuple[str]]:
    return place[0], (place[1],)


def _changed(value: Any, names: Names) -> Any:
    """Return a value with new names in the texts of its fields, but those that are one of a few."""
    if isinstance(value, Struct):
        if isinstance(value, Scans):
            return replace(value, index=names.of_columns(value.index))
        changes = {
            each.name: _changed(getattr(value, each.name), names)
            for each in fields(value)
            if each.name not in _AS_THEY_ARE and "Literal" not in str(each.type)
        }
        return replace(value, **changes)
    if isinstance(value, tuple):
        return tuple(_changed(item, names) for item in value)
    return names.of_text(value) if isinstance(value, str) else value


def _without(capture: Capture, statements: Collection[int]) -> Capture:
    """Return a capture without some statements, and without the transactions of nothing else."""
    left = [each for each in range(len(capture.statements)) if each not in statements]
    numbers = {old: new for new, old in enumerate(left)}
    transactions, kept = [], []
    for place, each in enumerate(capture.transactions):
        steps = tuple(
            replace(step, statement=numbers[step.statement])
            for step in each.steps
            if step.statement in numbers
        )
        if steps:
            transactions.append(replace(each, steps=steps))
            kept.append(place)
    number = counted(len(statements), "statement is", "statements are")
    return replace(
        capture,
        statements=tuple(capture.statements[each] for each in left),
        transactions=tuple(transactions),
        applications=tuple(
            replace(each, per_s=tuple(each.per_s[place] for place in kept))
            for each in capture.applications
        ),
        gaps=(*capture.gaps, f"{number} left out, as it is not certain with new names"),
    )
