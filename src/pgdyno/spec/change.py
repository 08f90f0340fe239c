"""The difference between two slices: settings, pool sizes, client counts, rates, tables, SQL.

Remedies contain a ``Change``, ``pgdyno compare`` builds one from its options, and the conductor
applies it. SQL of the user's that makes or undoes a change has a title, and is refused where it
cannot be either. ``Debt`` is the work that a change may postpone beyond the end of a slice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from pgdyno.escaping import visible_line
from pgdyno.json_types import Fields
from pgdyno.redact import blank
from pgdyno.spec.index_text import by_table, each_index

TITLE_LENGTH = 72
_COMMENTS = r"(?:\s|/\*.*?\*/|--[^\n]*(?:\n|$))*"
_WORDS = rf"(?s){_COMMENTS}(\w+(?:\s+\w+){{0,2}})"
_EMPTY = rf"(?s)(?:{_COMMENTS}|;)*"
_PREPARED = rf"(?is){_COMMENTS}prepare\s+transaction\b"
_TEXTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_CONTROL = frozenset(
    ("abort", "begin", "commit", "end", "release", "rollback", "savepoint", "start")
)
_OF_CLIENT = r"(?i)\b(?:stdin|stdout)\b"
Debt = Literal["WAL flush", "vacuum", "checkpoint"]
"""Flushing the WAL, removing dead rows, writing dirty buffers; in the order in which it is done, as
a checkpoint also writes what a vacuum changed."""


class Change(Struct, frozen=True):
    """A difference from the spec. An empty field means no difference."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Server settings, name → value as PostgreSQL spells it; applied by ALTER SYSTEM."""
    pool_max: Mapping[str, int | None] = field(default_factory=dict)
    """Client group → size of its client pool; ``None`` removes the pool."""
    clients: Mapping[str, int] = field(default_factory=dict)
    """Client group → number of clients."""
    rate: Mapping[str, float] = field(default_factory=dict)
    """Client group in open loop → factor on its rate."""
    table_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Table → storage parameters, for ALTER TABLE … SET."""
    indexes: Mapping[str, str] = field(default_factory=dict)
    """Table → the indexes that it has in addition, as ``spec/index_text.py`` reads them."""
    sql: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """SQL of the user's: the statements that ``make`` the change, and those that ``undo`` it, each
    in the order in which they are run."""
    spec: Mapping[str, str] = field(default_factory=dict)
    """Dotted key of the spec's load, workload, clients or standby → value, as ``load.protocol``."""

    def __bool__(self) -> bool:
        return bool(self.to_json())

    def settings_differing_from(self, other: Change) -> list[str]:
        """Return the names of the settings in which this change differs from ``other``."""
        names = {**self.settings, **other.settings}
        return [name for name in names if self.settings.get(name) != other.settings.get(name)]

    def over(self, earlier: Change) -> Change:
        """Return this change on top of ``earlier``; where both have a value, this one's is used."""
        tables = {**earlier.table_options}
        for table, options in self.table_options.items():
            tables[table] = {**tables.get(table, {}), **options}
        return Change(
            settings={**earlier.settings, **self.settings},
            pool_max={**earlier.pool_max, **self.pool_max},
            clients={**earlier.clients, **self.clients},
            rate={**earlier.rate, **self.rate},
            table_options=tables,
            indexes=by_table((*each_index(earlier.indexes), *each_index(self.indexes))),
            sql={**earlier.sql, **self.sql},
            spec={**earlier.spec, **self.spec},
        )

    def without(self, other: Change) -> Change:
        """Return the part of this change that ``other`` does not name."""
        tables = {
            table: {name: value for name, value in options.items() if name not in named}
            for table, options in self.table_options.items()
            for named in [other.table_options.get(table, {})]
        }
        named_indexes = {*each_index(other.indexes)}
        return Change(
            settings={n: v for n, v in self.settings.items() if n not in other.settings},
            pool_max={n: v for n, v in self.pool_max.items() if n not in other.pool_max},
            clients={n: v for n, v in self.clients.items() if n not in other.clients},
            rate={n: v for n, v in self.rate.items() if n not in other.rate},
            table_options={table: options for table, options in tables.items() if options},
            indexes=by_table(i for i in each_index(self.indexes) if i not in named_indexes),
            sql={n: v for n, v in self.sql.items() if n not in other.sql},
            spec={n: v for n, v in self.spec.items() if n not in other.spec},
        )

    def to_json(self) -> dict[str, object]:
        """Return a JSON-ready form without empty fields; ``from_json`` reads it."""
        fields = {
            "settings": dict(self.settings),
            "pool_max": dict(self.pool_max),
            "clients": dict(self.clients),
            "rate": dict(self.rate),
            "table_options": {table: dict(o) for table, o in self.table_options.items()},
            "indexes": dict(self.indexes),
            "sql": {side: list(statements) for side, statements in self.sql.items()},
            "spec": dict(self.spec),
        }
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def from_json(cls, fields: Fields) -> Change:
        """Return the change that ``to_json`` wrote."""
        sql = {side: tuple(statements) for side, statements in fields.get("sql", {}).items()}
        return cls(**{**fields, "sql": sql})


def title_of_sql(statements: Sequence[str]) -> str:
    """Return statements as one line of at most ``TITLE_LENGTH`` characters and the number of those
    behind the first, without characters that a terminal would obey."""
    line = visible_line(" ".join(statements[0].split())).rstrip("; ")
    if len(line) > TITLE_LENGTH:
        line = f"{line[: TITLE_LENGTH - 1].rstrip()}…"
    more = len(statements) - 1
    return f"{line} (and {more} more)" if more else line


def first_word(statement: str) -> str:
    """Return the first word of a statement in lower case, behind comments; '' without one."""
    return " ".join(_first_words(statement)[:1])


def begins_with(statement: str, beginnings: Collection[str]) -> bool:
    """Return whether the first words of a statement, up to three, behind comments, are one of
    ``beginnings``, which are in lower case."""
    words = _first_words(statement)
    return any(" ".join(words[:count]) in beginnings for count in range(1, len(words) + 1))


def _first_words(statement: str) -> list[str]:
    found = re.match(_WORDS, statement)
    return found[1].lower().split() if found else []


def controls_transaction(statement: str) -> bool:
    """Return whether a statement begins, ends or divides a transaction."""
    return first_word(statement) in _CONTROL or re.match(_PREPARED, statement) is not None


def unfit_sql(statement: str) -> str | None:
    """Return why a text can be no part of a change, where the server is not needed to tell."""
    if re.fullmatch(_EMPTY, statement):
        return "is empty"
    if "\0" in statement:
        return "has a zero byte"
    if blank(statement) != statement:
        return "has a password or another credential, which the run file and the page would show"
    if statement.lstrip().startswith("\\"):
        return "is a command of psql, not SQL"
    if controls_transaction(statement):
        return "begins or ends a transaction; pgdyno runs the statements in one, where they can be"
    if first_word(statement) == "copy" and re.search(_OF_CLIENT, _TEXTS.sub("", statement)):
        return "copies from or to the client, which has no data for it; COPY of a file can be used"
    return None
