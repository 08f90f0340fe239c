"""The widths of texts that the WAL of INSERTs tells, where no statistics do, and the pages of a
table with few rows may be nearly empty.

The record of a row has its columns, and that of each index the key. Each INSERT tells the sum of
its texts' widths, and columns that refer to each other have the same.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from msgspec import Struct

from pgdyno.capture._told import with_told
from pgdyno.clone.capture_file import Statement, Table
from pgdyno.clone.keys import Keys, Place
from pgdyno.clone.values import ROW_BYTES, bytes_of, bytes_of_row, is_text
from pgdyno.spec.sql_text import NAME, folded

_ROWS_MAX = 1000
"""Rows of a table from which on its pages tell its widths."""
_OF_ROW, _OF_INDEX, _OF_LOCK = 54, 52, 54
"""Bytes of the records of a row, of its key in an index, and of the lock of a row that it refers
to, without values."""
_ONCE = 0.95
"""Share of the WAL that is of rows; the rest is of pages that are divided or cleaned up."""
_WIDTH_MIN, _WIDTH_MAX = 2.0, 8000.0
_ALIKE = 0.3
"""Weight of the texts of an INSERT being alike, beside that of its WAL."""
_IMAGES_MAX = 0.02
_PAGES_MIN = 3
"""Pages of a table from which on its rows fill at least some."""
_OTHER = re.compile(r"\b(?:on\s+conflict|select)\b", re.IGNORECASE)
"""A row may be updated in place of being inserted, or have values of other rows."""
_BTREE = re.compile(r"USING btree\b")
_PLAIN = re.compile(rf"USING btree \(({NAME}(?:\s+DESC)?(?:,\s*{NAME}(?:\s+DESC)?)*)\)")


class _Equation(Struct, frozen=True):
    """Bytes of WAL, less those that are known, and the texts that they are of."""

    bytes: float
    texts: Counter[Place]

    @property
    def mean(self) -> float:
        """Width of each text, if all are alike."""
        return self.bytes / self.texts.total()


def with_widths(tables: tuple[Table, ...], statements: Iterable[Statement]) -> tuple[Table, ...]:
    """Return the tables with widths of texts that have none, as far as INSERTs tell them."""
    keys = Keys(tables)
    equations = [each for statement in statements for each in _equations(statement, keys)]
    told = _solved([each for each in equations if each.texts and each.bytes > 0])
    few = {table.full_name for table in tables if table.rows < _ROWS_MAX}
    widths = {place: round(width, 1) for place, width in told.items() if place[0] in few}
    made = with_told(tables, "width_bytes", widths)
    return with_told(made, "width_bytes", _that_fit(made, widths))


def _that_fit(tables: tuple[Table, ...], told: Mapping[Place, float]) -> dict[Place, float]:
    """Return the widths that are less than they were told, as the rows of the table have no room
    for these in its pages: indexes whose pages are divided write WAL, too. Texts to which others
    refer stay."""
    keys = Keys(tables)
    places = [(table.full_name, each.name) for table in tables for each in table.columns]
    referred = {root for place in places if (root := keys.root(place)) != place}
    found: dict[Place, float] = {}
    for table in (each for each in tables if each.rows and each.pages >= _PAGES_MIN):
        texts = {
            place: width
            for place, width in told.items()
            if place[0] == table.full_name and place not in referred
        }
        over = ROW_BYTES + _values(table, keys) - bytes_of_row(table)
        if texts and over > 0:
            left = max(0.0, 1 - over / sum(texts.values()))
            found |= {at: round(max(_WIDTH_MIN, width * left), 1) for at, width in texts.items()}
    return found


def _values(table: Table, keys: Keys) -> float:
    """Return the bytes of a row's values."""
    roots = [
        keys.root((table.full_name, each.name))
        for each in table.columns
        if not (each.is_always_null or each.virtual)
    ]
    columns = [keys.tables[name].column(column) for name, column in roots]
    return sum(each.width_bytes or bytes_of(each) for each in columns if each is not None)


def _solved(equations: Sequence[_Equation]) -> dict[Place, float]:
    """Return the widths that agree best with all INSERTs, and are near to each other; texts of one
    INSERT alone have what the others leave of it."""
    if not equations:
        return {}
    from scipy import sparse
    from scipy.optimize import lsq_linear

    means: defaultdict[Place, list[float]] = defaultdict(list)
    for each in equations:
        for text in each.texts:
            means[text].append(each.mean)
    places = sorted(means)
    number = {place: at for at, place in enumerate(places)}
    parts = [
        (count / each.bytes, at, number[place])
        for at, each in enumerate(equations)
        for place, count in each.texts.items()
    ]
    values, rows, columns = zip(*parts, strict=True)
    times = sparse.csr_array((values, (rows, columns)), (len(equations), len(places)))
    alike = sparse.diags_array([_ALIKE / median(means[place]) for place in places])
    found = lsq_linear(
        sparse.vstack([times, alike], format="csr"),
        [1.0] * len(equations) + [_ALIKE] * len(places),
        (_WIDTH_MIN, _WIDTH_MAX),
        lsmr_tol="auto",
    )
    told = dict(zip(places, map(float, found.x), strict=True))
    for each in equations:
        own = {text: times for text, times in each.texts.items() if len(means[text]) == 1}
        others = sum(told[text] * times for text, times in each.texts.items() if text not in own)
        if own:
            width = (each.bytes - others) / sum(own.values())
            told |= dict.fromkeys(own, max(_WIDTH_MIN, min(_WIDTH_MAX, width)))
    return told


def _equations(statement: Statement, keys: Keys) -> Iterator[_Equation]:
    """Yield the equation of a row of an INSERT."""
    written = [each for each in statement.parameters if each.use == "inserted"]
    table = keys.tables.get(written[0].table) if written else None
    names = Counter(each.column for each in written)
    if table is None or table.triggers or len({*names.values()}) > 1:
        return
    is_other = _OTHER.search(statement.text) is not None
    if is_other or statement.rows < _ONCE or (statement.wal_images or 0.0) > _IMAGES_MAX:
        return
    if (indexed := _indexed(table)) is None:
        return
    known = _OF_ROW + _OF_INDEX * len(indexed) + _OF_LOCK * len(table.references)
    texts: Counter[Place] = Counter()
    for name in (each for part in (names, *indexed) for each in part if each in names):
        root = keys.root((table.full_name, name))
        column = keys.tables[root[0]].column(root[1])
        if column is None:
            return
        if is_text(column) and column.width_bytes is None and column.base != "bpchar":
            texts[root] += 1
        else:
            known += round(column.width_bytes or bytes_of(column))
    yield _Equation(_ONCE * statement.wal_bytes / statement.rows - known, texts)


def _indexed(table: Table) -> list[tuple[str, ...]] | None:
    """Return the columns of a table's indexes, without those of expressions or for a part of the
    rows; None if some have another structure."""
    indexed = [*table.keys]
    for index in table.indexes:
        if (found := _PLAIN.fullmatch(index.sql)) is not None:
            indexed.append(tuple(folded(each.split()[0]) for each in found[1].split(",")))
        elif _BTREE.match(index.sql) is None:
            return None
    return indexed
