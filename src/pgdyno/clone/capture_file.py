"""The capture file: a load and the schema under it, without anybody's data.

JSON of the types below, which have names, sizes, frequencies and rates, and no value: not in the
statements, which are those of pg_stat_statements, and not in defaults, bounds or statistics.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct, field

SUFFIX = ".pgdyno"
FORMAT: Literal["pgdyno capture"] = "pgdyno capture"
VERSION = 1
SHORTENED = "/*, ... */"
"""Behind the first parameter of a list of any length, in texts of PostgreSQL 18 and newer."""
_AGGREGATES = (
    r"(?is)\s*select\s+(?:coalesce\s*\()?(?:array_agg|avg|count|max|min|sum)\s*\("
    r"(?!.*\bgroup\s+by\b)"
)
_PARAMETER = re.compile(r"\$\d+(?:::\w+)?")
"""A parameter with its type, if it has one."""
_ROWS = re.compile(r"\([$\s,]*\)(?:\s*,\s*\([$\s,]*\))+|\([$\s,]*\)")
"""Rows of parameters without numbers."""
_ON_CONFLICT = re.compile(r"(?is)\bon\s+conflict\b.*?\bdo\s+(nothing|update)\b")
_PAGE_BYTES = 8192

Default = Literal["none", "sequence", "time", "uuid", "value"]
"""A sequence's next value, the present time, a new UUID, or any other value."""
Use = Literal["compared", "least", "most", "inserted", "set", "added", "limit", "offset", "other"]
"""Compared with a column, or the lower or the upper bound of a range of it; a value for it, or one
that is added to it; LIMIT, OFFSET; none of these, or not known."""
WRITING: tuple[Use, ...] = ("inserted", "set")
"""Uses of those whose values a statement writes."""


class Column(Struct, frozen=True, omit_defaults=True):
    """A column, and what the statistics say of it without a value."""

    name: str
    type: str
    """As in CREATE TABLE."""
    base: str
    """Name of the type, below domains; ``enum`` and ``array`` for these."""
    not_null: bool = False
    default: Default = "none"
    identity: bool = False
    generated: str = ""
    """Expression of a column that the server computes, without values."""
    virtual: bool = False
    """True if it is computed when it is read."""
    labels: int = 0
    """Number of labels of an enum."""
    null_share: float = 0.0
    distinct: float | None = None
    """As in pg_stats: a number of values, or the negative share of the rows; null: not known."""
    width_bytes: float | None = None
    correlation: float | None = None
    elements: float | None = None
    """Mean number of elements of an array."""
    distinct_elements: float | None = None
    """About the number of different ones in all rows."""
    frequent: tuple[float, ...] = ()
    """Shares of the most common values, of those with at least ``ROWS_MIN`` rows."""

    @property
    def is_always_null(self) -> bool:
        """True if it is null in all rows."""
        return self.null_share == 1

    @property
    def has_sequence(self) -> bool:
        """True if the server numbers its values."""
        return self.identity or self.default == "sequence"


def sequence_name(table: str, column: str) -> str:
    """Return the name that the server gives the sequence of a column, by the names of both; it
    shortens a long one."""
    return f"{table}_{column}_seq"


class Reference(Struct, frozen=True):
    """Columns that point to those of another table."""

    columns: tuple[str, ...]
    table: str
    keys: tuple[str, ...]
    action: str = ""
    """ON DELETE … and DEFERRABLE …, if it is not the default."""


class Index(Struct, frozen=True, omit_defaults=True):
    """An index that is not of a key."""

    sql: str
    """The part after ON and the table: USING …."""
    unique: bool = False


class Partitions(Struct, frozen=True, omit_defaults=True):
    """The partitions of a table, those below others too."""

    strategy: Literal["range", "list", "hash"]
    columns: tuple[str, ...]
    count: int
    shares: tuple[float, ...] = ()
    """Shares of the rows in ranges, in the order of these; () if they are not known."""


class Scans(Struct, frozen=True, omit_defaults=True):
    """Scans of a table, or of one of its indexes, in a second."""

    per_s: float
    index: str = ""
    """Its columns; '' if the whole table is read."""


class Table(Struct, frozen=True, omit_defaults=True):
    """A table; of a partitioned one the whole."""

    schema: str
    name: str
    rows: float
    pages: int
    columns: tuple[Column, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    """Columns of the primary key, if there is one, and then of the unique ones."""
    has_primary: bool = False
    references: tuple[Reference, ...] = ()
    likely: tuple[Reference, ...] = ()
    """References that no constraint has, and that names showed before they were replaced."""
    path: tuple[str, ...] = ()
    """Two columns by which recursive queries go from row to row: the second one names an earlier
    row than the first."""
    indexes: tuple[Index, ...] = ()
    options: tuple[str, ...] = ()
    """Storage parameters: NAME=VALUE."""
    unlogged: bool = False
    partitions: Partitions | None = None
    updates_per_s: float = 0.0
    """Rows that are updated."""
    hot_share: float | None = None
    """Of these, those whose new version is in the same page; null: none is updated."""
    update_skew: float | None = None
    """Exponent of the Zipf distribution of updates over the rows; 0: all alike; null: not known."""
    triggers: tuple[str, ...] = ()
    """CREATE TRIGGER, without values."""
    checks: tuple[str, ...] = ()
    """CHECK (…), with no literals other than 0, 1 and the empty text."""
    scans: tuple[Scans, ...] = ()

    @property
    def full_name(self) -> str:
        """Schema and name, as a run file has them."""
        return f"{self.schema}.{self.name}"

    @property
    def size_bytes(self) -> int:
        """Its pages, without indexes."""
        return self.pages * _PAGE_BYTES

    def column(self, name: str) -> Column | None:
        """Return the column of this name."""
        return next((each for each in self.columns if each.name == name), None)

    def is_in_key(self, column: Column) -> bool:
        """Return whether a column is one of a key."""
        return any(column.name in key for key in self.keys)


class Function(Struct, frozen=True):
    """A function or a procedure that triggers, statements or other functions call."""

    schema: str
    name: str
    sql: str
    """CREATE FUNCTION, without values."""


class View(Struct, frozen=True):
    """A view that statements name."""

    schema: str
    name: str
    sql: str
    """Its query, without values."""


class Parameter(Struct, frozen=True, omit_defaults=True):
    """A parameter of a statement."""

    type: str
    use: Use = "other"
    table: str = ""
    column: str = ""


class Statement(Struct, frozen=True, omit_defaults=True):
    """A statement, and its counts over the period."""

    text: str
    """With $1, $2 …, ``SHORTENED`` lists, and neither literals nor comments."""
    parameters: tuple[Parameter, ...]
    calls_per_s: float
    rows: float
    """Of a call."""
    ms: float
    wal_bytes: float
    pages: float | None = None
    """Pages that a call reads, in memory or not."""
    pages_dirtied: float | None = None
    wal_records: float | None = None
    wal_images: float | None = None
    """Full-page images, which depend on the time since a checkpoint began."""
    added: float | None = None
    """Rows of a call that are new, of an INSERT that updates others; null: not known."""
    is_parsed: bool = False
    """True if sessions have the server parse it each time that they execute it."""

    @property
    def aggregates(self) -> bool:
        """True if it gives one row, however many it reads."""
        return re.match(_AGGREGATES, self.text) is not None

    @property
    def without_rows(self) -> str:
        """Its text without the number of rows, or of values in a list, that it has parameters
        for."""
        whole = self.text.replace(f" {SHORTENED}", "")
        return _ROWS.sub("()", _PARAMETER.sub("$", whole))

    @property
    def size(self) -> int:
        """Number of its parameters; a list that the server has shortened has some more."""
        return len(self.parameters) + self.text.count(SHORTENED)

    def compared_with(self, table: Table) -> set[str]:
        """Return the columns of a table with which it compares values."""
        of_table = (each for each in self.parameters if each.table == table.full_name)
        return {each.column for each in of_table if each.use == "compared"}

    @property
    def on_conflict(self) -> Literal["", "nothing", "update"]:
        """Answer of an INSERT to rows that are there; '' if they are errors."""
        found = _ON_CONFLICT.search(self.text)
        if found is None:
            return ""
        return "update" if found[1].lower() == "update" else "nothing"


class Step(Struct, frozen=True, omit_defaults=True):
    """A statement of a transaction."""

    statement: int
    """Its place in the file's statements."""
    times: float = 1.0
    """Mean executions in a transaction."""
    share: float | None = None
    """Share of the transactions that have it; null: not known."""


class Transaction(Struct, frozen=True, omit_defaults=True):
    """A kind of transaction, or of a unit of work without a block."""

    per_s: float
    steps: tuple[Step, ...]
    """In order."""
    block: bool = False
    """True if it begins with BEGIN; otherwise each of its statements commits by itself."""

    @property
    def commits_per_s(self) -> float:
        """Commits in a second."""
        return self.per_s * (1.0 if self.block else sum(each.times for each in self.steps))


class SeenFinding(Struct, frozen=True):
    """A finding of a check."""

    id: str
    severity: str


class Source(Struct, frozen=True):
    """The server and the period that were looked at."""

    major: int
    seconds: float
    transactions_per_s: float
    sessions: int
    """Client sessions that were seen to execute its statements."""
    busy_sessions: float
    """Mean number of those within a transaction."""
    is_simple: bool | None = None
    """True if clients send values within the texts of statements, by the simple protocol."""
    cpu_ms: float | None = None
    """CPU time of the sessions for a transaction; null: not known, as on another machine."""
    waits: dict[str, float] | None = None
    """Shares of the time of sessions at work by class of waits, ``cpu`` without one; null: not
    known."""
    findings: tuple[SeenFinding, ...] | None = None
    """Those of a check in this time, the worst first; null: not known."""


class Application(Struct, frozen=True):
    """Sessions that execute other transactions than those of other applications."""

    sessions: int
    """Mean number of those that are connected."""
    busy_sessions: float
    """Mean number of those within a transaction."""
    per_s: tuple[float, ...]
    """Number of each of the file's transactions in a second."""


class Interval(Struct, frozen=True):
    """A part of the time that the load was watched."""

    seconds: float
    transactions_per_s: float
    sessions: float
    """Mean number of those that were connected."""
    busy_sessions: float
    """Mean number of those within a transaction."""


class Capture(Struct, frozen=True):
    """A capture file."""

    format: Literal["pgdyno capture"]
    version: int
    made_by: str
    source: Source
    tables: tuple[Table, ...]
    statements: tuple[Statement, ...]
    transactions: tuple[Transaction, ...]
    gaps: tuple[str, ...]
    """Parts that were not readable, are left out, or are guessed."""
    functions: tuple[Function, ...] = ()
    views: tuple[View, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    """Settings that matter to a load, where they differ from the default."""
    applications: tuple[Application, ...] = ()
    """Those with most sessions first; () if all sessions do the same."""
    course: tuple[Interval, ...] = ()
    """The period in parts, in order; () if it was too short for two."""

    @property
    def all_sessions(self) -> Application:
        """All sessions as one application."""
        source, per_s = self.source, tuple(each.per_s for each in self.transactions)
        return Application(source.sessions, source.busy_sessions, per_s)
