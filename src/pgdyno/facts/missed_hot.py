"""Updates that are not HOT, and the reason.

An update is HOT (heap-only tuple) if the new row fits on the page of the old one and no indexed
column changes (storage-hot.html in PostgreSQL's manual). Any other makes an entry in every index of
its table. The reason is, in this order: an indexed column, if statements that set one make at least
``MOST`` of the updates; full pages, if at least ``MOST`` of the updates that are not HOT went to
another page (counted from version 16); an indexed column, if most stayed on their page. Before
version 16: an indexed column, if at least ``MOST`` of the load's statements that update the table
set one, however many rows each updates; full pages, if they do not. Else it is not known.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

from msgspec import Struct

from pgdyno.facts.slices import Facts
from pgdyno.facts.tables import Index, TableCounts, indexes, tables, updated_columns
from pgdyno.numbers import counted, percent
from pgdyno.record.finding import Evidence
from pgdyno.spec.sql_text import names_table

Reason = Literal["full pages", "indexed column", "unknown"]

UPDATES_S_MIN = 100.0
HOT_SHARE = 0.5
MOST = 0.5
COST_SHARE = 0.03
"""Share of the response time that the index entries take at least for a finding."""
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
