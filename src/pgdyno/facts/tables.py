"""The tables and indexes under load: what was done to them, which columns statements compare and
update, and why updates are not HOT.

An update is HOT (heap-only tuple) if the new row fits on the page of the old one and no indexed
column changes (storage-hot.html in PostgreSQL's manual). Any other makes an entry in every index of
its table. The reason is, in this order: an indexed column, if statements that set one make at least
``MOST`` of the updates; full pages, if at least ``MOST`` of the updates that are not HOT went to
another page (counted from version 16); an indexed column, if most stayed on their page. Before
version 16: an indexed column, if at least ``MOST`` of the load's statements that update the table
set one, however many rows each updates; full pages, if they do not. Else it is not known.

Of what a statement compares, only what its text alone shows counts: a statement of one table,
without joins, subqueries and OR. Of its WHERE, a column that is compared with a value (a parameter,
a variable, a constant) counts; other conditions, which an index would leave to a filter, are passed
over.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from pgdyno.facts.shapes import without_values
from pgdyno.facts.slices import Facts
from pgdyno.numbers import counted, percent
from pgdyno.record import Series
from pgdyno.record.finding import Evidence, Skip
from pgdyno.spec.sql_text import NAME, RELATION, folded, names_table

_COUNTED = (
    *("n_tup_ins", "n_tup_upd", "n_tup_del", "n_tup_hot_upd", "n_tup_newpage_upd"),
    *("seq_scan", "seq_tup_read", "idx_scan", "heap_blks_read"),
)
UNREPORTED_MAX = 1.5
SCAN_ROWS_MIN = 1000.0
"""Rows of a sequential scan, above which an index would pay: about ten pages of short rows."""
_UPDATE = re.compile(
    rf"\s*update\s+(?:only\s+)?({RELATION})\s*\*?"
    rf"(?:\s+(?:as\s+)?(?!set\b){NAME})?\s+set\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)
_END_OF_SET = re.compile(r"\b(where|from|returning)\b", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(?:^|,)\s*({NAME})\s*(?:\[[^]]*\]\s*)*(?:\.\s*{NAME}\s*)?=", re.I)
_INNERMOST = re.compile(r"\([^()]*\)")
UPDATES_S_MIN = 100.0
HOT_SHARE = 0.5
MOST = 0.5
COST_SHARE = 0.03
"""Share of the response time that the index entries take at least for a finding."""
_ALIAS = rf"(?:\s+(?:as\s+)?(?!set\b|where\b){NAME})?"
_VALUE = r"[-+]?\s*(?:\?|\$\d+)(?:\s*::\s*[\w ]+)?"
_COLUMN = rf"(?:{NAME}\s*\.\s*)?(?P<column>{NAME})"


class TableCounts(Struct, frozen=True):
    """Counts of a table per second."""

    name: str
    """schema.name."""
    inserted: float
    updated: float
    deleted: float
    hot: float
    moved: float | None
    """Updates that put the row on another page; None: not counted before version 16."""
    scans: float
    scanned_rows: float
    """Sequential scans, and the rows that they read."""
    index_scans: float
    read_pages: float
    """Pages of its rows that were not in shared_buffers."""

    @property
    def written(self) -> float:
        """Rows written."""
        return self.inserted + self.updated + self.deleted


class Index(Struct, frozen=True):
    """An index, as it was at the end of the slices."""

    table: str
    name: str
    method: str
    scans: float
    """Since the statistics were last reset."""
    enforces: bool
    """True if it is there for a constraint or a replica identity."""
    columns: tuple[str, ...]


@lru_cache(maxsize=1)
def tables(s: Facts) -> list[TableCounts]:
    """Return the recorded tables, the most written first. Raises Skip if there are none."""
    series, scale = s.run.series("metric_table", s.slice_ids), _reported(s) / s.seconds
    found = []
    for name, risen in _risen(series, "relation", _COUNTED).items():
        per_s = {column: rise * scale for column, rise in risen.items()}
        table = TableCounts(
            name=name,
            inserted=per_s.get("n_tup_ins", 0.0),
            updated=per_s.get("n_tup_upd", 0.0),
            deleted=per_s.get("n_tup_del", 0.0),
            hot=per_s.get("n_tup_hot_upd", 0.0),
            moved=per_s.get("n_tup_newpage_upd"),
            scans=per_s.get("seq_scan", 0.0),
            scanned_rows=per_s.get("seq_tup_read", 0.0),
            index_scans=per_s.get("idx_scan", 0.0),
            read_pages=per_s.get("heap_blks_read", 0.0),
        )
        found.append(table)
    if not found:
        raise Skip("the tables' counters were not recorded")
    return sorted(found, key=lambda table: (-table.written, table.name))


def _reported(s: Facts) -> float:
    """Return the factor for what sessions had done but not yet reported at the slices' end.

    They report at most once a second, tables and transactions together, so what is missing of the
    transactions is missing of the tables.
    """
    counted = s.run.delta("metric_database", "xact_commit", s.slice_ids)
    done = s.throughput_tps * s.seconds
    return min(UNREPORTED_MAX, max(1.0, done / counted)) if counted else 1.0


def scanned_tables(s: Facts) -> list[TableCounts]:
    """Return the tables read by sequential scans of many rows each, most rows first.

    Rows that TABLESAMPLE or a range of ctid reads are counted without a scan (heapam.c).
    """
    found = [
        table
        for table in tables(s)
        if table.scans and table.scanned_rows >= SCAN_ROWS_MIN * table.scans
    ]
    return sorted(found, key=lambda table: -table.scanned_rows)


def sizes_bytes(s: Facts) -> dict[str, float]:
    """Return the last recorded size of each table by name, with its indexes and TOAST."""
    series = s.run.series("metric_table", s.slice_ids)
    recorded = zip(series["relation"], series["size_bytes"], strict=True)
    return {str(name): float(size) for name, size in recorded if size == size}  # without NaN


def indexes(s: Facts) -> list[Index]:
    """Return the indexes as they were last read; empty if they were not."""
    series = s.run.series("metric_index", s.slice_ids)
    last: dict[tuple[str, str], Index] = {}
    for n in range(len(series["at_ms"])):
        table, name = str(series["relation"][n]), str(series["index_name"][n])
        columns = series["table_columns"][n]
        last[table, name] = Index(
            table=table,
            name=name,
            method=str(series["method"][n]),
            scans=float(series["idx_scan"][n]),
            enforces=bool(series["enforces"][n] > 0),
            columns=tuple(str(columns).split(",")) if columns else (),
        )
    return list(last.values())


def updated_columns(statement: str) -> tuple[str, frozenset[str]] | None:
    """Return the table, as written, and the columns that an UPDATE sets one by one; None for
    another statement, and for ``set (a, b) = …``."""
    match = _UPDATE.match(statement)
    if match is None:
        return None
    assignments = _without_parentheses(match[2])
    assignments = _END_OF_SET.split(assignments, maxsplit=1)[0]
    names = frozenset(folded(found[1]) for found in _ASSIGNED.finditer(assignments))
    return (match[1], names) if names else None


def _without_parentheses(text: str) -> str:
    """Return the text without what stands in parentheses."""
    while (shorter := _INNERMOST.sub(" ", text)) != text:
        text = shorter
    return text


def _risen(series: Series, key: str, columns: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the rise of each column for each value of ``key``, within each slice; a column of
    which no value was recorded is left out. A counter that falls was reset, which counts as 0."""
    risen: dict[str, dict[str, float]] = {}
    last: dict[tuple[Any, str, str], float] = {}
    for column in columns:
        values: Sequence[float] = series[column].tolist()
        for name, part, value in zip(series[key], series["slice_id"], values, strict=True):
            mine = risen.setdefault(str(name), {})
            if value != value:  # NaN stands for NULL
                continue
            before = last.get((part, str(name), column), value)
            mine[column] = mine.get(column, 0.0) + max(0.0, value - before)
            last[part, str(name), column] = value
    return risen


Reason = Literal["full pages", "indexed column", "unknown"]

_SUMMARISING, _SUMMARISING_SINCE = "brin", 160000
"""From this version an update of a column in a BRIN index can be HOT."""


class Missed(Struct, frozen=True):
    """The updates of a table that were not HOT."""

    table: TableCounts
    indexes: int
    """0 if they were not recorded."""
    reason: Reason
    column: str
    """The indexed column that most updates set; '' if none is known."""

    @property
    def missed(self) -> float:
        """Updates per second that were not HOT."""
        return self.table.updated - self.table.hot

    @property
    def entries_per_s(self) -> float:
        """Entries into indexes that they made per second."""
        return self.missed * max(1, self.indexes)

    @property
    def finding(self) -> str:
        """The finding that they belong to."""
        return "indexed-updates" if self.reason == "indexed column" else "full-pages"


def missed_updates(s: Facts) -> list[Missed]:
    """Return the tables of which most updates are not HOT, most index entries first."""
    known, updates = indexes(s), _updates(s)
    found = []
    for table in tables(s):
        if table.updated < UPDATES_S_MIN or table.hot > HOT_SHARE * table.updated:
            continue
        own = [index for index in known if index.table == table.name]
        mine = [each for each in updates if names_table(each.table, table.name)]
        column = _indexed_column(s, table, own, mine)
        reason = _reason(table, column, known=bool(own) and bool(updates))
        found.append(Missed(table, len(own), reason, column))
    return sorted(found, key=lambda each: -each.entries_per_s)


class _Update(Struct, frozen=True):
    """A statement of the scripts that updates a table."""

    table: str
    """As written, with a schema or without."""
    columns: frozenset[str]
    per_s: float


def _updates(s: Facts) -> list[_Update]:
    found = []
    for statement in s.statements:
        if written := updated_columns(statement.statement):
            found.append(_Update(*written, statement.done / s.seconds))
    return found


def _indexed_column(s: Facts, table: TableCounts, own: list[Index], mine: list[_Update]) -> str:
    """Return the indexed column that is set in at least ``MOST`` of the updates, or ''."""
    blocking = {
        column
        for index in own
        for column in index.columns
        if index.method != _SUMMARISING or s.server_version_num < _SUMMARISING_SINCE
    }
    per_s: defaultdict[str, float] = defaultdict(float)
    for update in mine:
        for column in update.columns & blocking:
            per_s[column] += update.per_s
    every = table.updated
    if table.moved is None:
        every = min(every, sum(update.per_s for update in mine))
    most = max(per_s, key=lambda column: per_s[column], default="")
    return most if most and per_s[most] >= MOST * every else ""


def _reason(table: TableCounts, column: str, *, known: bool) -> Reason:
    if column:
        return "indexed column"
    if table.moved is not None:
        moved = table.moved >= MOST * (table.updated - table.hot)
        return "full pages" if moved else "indexed column"
    return "full pages" if known else "unknown"


def missed_words(worst: Missed, why: str) -> str:
    """Return the sentence of a finding."""
    part = percent(1.0 - worst.table.hot / worst.table.updated)
    entries = counted(worst.indexes, "index", "indexes") if worst.indexes else "every index"
    return (
        f"{part} of the updates of {worst.table.name} are not HOT, {why}: each makes an entry in"
        f" {entries}"
    )


def hot_evidence(s: Facts, missed: list[Missed], share: float) -> list[Evidence]:
    """Return the evidence of a finding on ``missed``, or of none."""
    updated = sum(table.updated for table in tables(s))
    hot = sum(table.hot for table in tables(s))
    bar = f"at least {percent(COST_SHARE)}"
    evidence = [
        s.evidence("updates", updated, "per s"),
        s.evidence("HOT / updates", hot / updated if updated else None, "share"),
        s.evidence("index entries / response time (estimate)", share, "share", bar),
    ]
    for each in missed:
        table = each.table
        of_table = f"HOT / updates of {table.name}"
        evidence += [
            s.evidence(
                of_table, table.hot / table.updated, "share", f"at most {percent(HOT_SHARE)}"
            ),
            s.evidence(f"indexes of {table.name}", each.indexes or None, "count"),
        ]
        if table.moved is not None:
            words = f"at least {percent(MOST)}: full pages"
            evidence.append(
                s.evidence("to another page / not HOT", table.moved / each.missed, "share", words)
            )
        if each.column:
            evidence.append(s.evidence("indexed column that is updated", each.column, ""))
    return evidence


_STATEMENT = re.compile(
    rf"(?:select\s.*?\sfrom\s+(?:only\s+)?(?P<read>{RELATION}){_ALIAS}"
    rf"|delete\s+from\s+(?:only\s+)?(?P<deleted>{RELATION}){_ALIAS}"
    rf"|update\s+(?:only\s+)?(?P<updated>{RELATION}){_ALIAS}\s+set\s.*?)"
    r"\s+where\s+(?P<condition>.*)",
    re.IGNORECASE | re.DOTALL,
)
_END = re.compile(
    r"\b(?:group\s+by|order\s+by|limit|offset|fetch|having|window|for|returning)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_MORE_THAN_TEXT_SHOWS = re.compile(
    r"\b(?:join|or|union|intersect|except|using|with|case)\b|\bselect\b.*\bselect\b|\bset\b.*\bfrom\b",
    re.IGNORECASE | re.DOTALL,
)
_BETWEEN = re.compile(rf"(\s)between\s+{_VALUE}\s+and\s+{_VALUE}", re.IGNORECASE)
_COMPARED = re.compile(
    rf"{_COLUMN}\s*(?:(?P<equal>=\s*{_VALUE}|\bin\s*\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\))"
    rf"|[<>]=?\s*{_VALUE})",
    re.IGNORECASE,
)


class ComparedColumns(Struct, frozen=True):
    """Columns that a statement compares with values."""

    table: str
    """As written, with a schema or without."""
    columns: tuple[str, ...]
    """Those compared for equality, then one of which a range is wanted: in this order an index
    serves all of them."""


def compared(statement: str) -> ComparedColumns | None:
    """Return the table and the columns; None if the text does not show them."""
    text = without_values(statement).strip("; ")
    found = _STATEMENT.fullmatch(text)
    if found is None or _MORE_THAN_TEXT_SHOWS.search(text):
        return None
    condition = _END.sub("", _BETWEEN.sub(r"\1> ?", found["condition"]))
    equal: dict[str, None] = {}
    ranges: dict[str, None] = {}
    for part in re.split(r"\band\b", condition, flags=re.IGNORECASE):
        if match := _COMPARED.fullmatch(part.strip()):
            (equal if match["equal"] else ranges)[folded(match["column"])] = None
    columns = (*equal, *[name for name in ranges if name not in equal][:1])
    table = found["read"] or found["deleted"] or found["updated"]
    return ComparedColumns(table, columns) if columns else None
