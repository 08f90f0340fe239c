"""The keys of columns: whole numbers from 1, from which rows and parameters have their values.

A value is made of its key alone (values.py), so that what a parameter looks for is there, and a
reference is the key of a row of the other table. The keys of a table's rows follow from the number
of the row where they are unique or in order, and are drawn otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from pgdyno.clone._likely import Place as Place
from pgdyno.clone._likely import likely_references
from pgdyno.clone._lone import LoneKey
from pgdyno.clone._pairs import PairedKey, paired_keys
from pgdyno.clone._paths import STEP, Path
from pgdyno.clone.capture_file import WRITING, Column, Parameter, Statement, Table
from pgdyno.clone.values import value_of

_FREQUENT_MIN = 2.0
"""Times the mean share from which on a value is more frequent than others."""
_FREQUENT_MAX = 20
_CHANCES = 100_000
_UNIQUE_MIN = 0.95
"""Different values, as a share of the rows, from which on a column is unique."""
GROWING_MIN = 0.1
"""Different values, as a share of the rows, from which on their number grows with these: ANALYZE
has it so."""
_ALL_MIN = 0.9
"""Share of the keys from which on rows refer to all of them: both numbers are estimates."""
_ORDERED_MIN = 0.9
"""Correlation from which on a column's values follow the order of the rows."""
_ZIPF_MIN, _ZIPFIAN_MIN = 0.99, 1.001
"""Exponent from which on random_zipfian is used, and the least that it takes."""
_PARTS = 10**12


class Keys:
    """The keys of all columns of some tables, for rows ``scale`` times as many."""

    def __init__(
        self, tables: Iterable[Table], scale: float = 1.0, *, one_group: bool = True
    ) -> None:
        self.tables = {each.full_name: each for each in tables}
        self._scale = scale
        self.one_group = one_group
        """True if all clients are in one group, and thus have different numbers."""
        self._counts: dict[Place, int] = {}

    def rows(self, table: Table) -> int:
        """Return the rows of a table; those below a thousand are not scaled."""
        rows = max(0.0, table.rows)
        return round(rows if rows < 1000 else rows * self._scale)

    def root(self, place: Place) -> Place:
        """Return the column whose keys a column has: that to which it refers, or itself. Of columns
        that refer to each other it is the first by name."""
        seen = [place]
        while (to := self._referred(seen[-1])) is not None:
            if to in seen:
                return min(seen[seen.index(to) :])
            seen.append(to)
        return seen[-1]

    def value(self, place: Place, key: str) -> str:
        """Return the expression of a column's value by its key: that of the column to which it
        refers, as two texts of other lengths differ."""
        root = self.root(place)
        table = self.tables[root[0]]
        column = table.column(root[1])
        assert column is not None, "references are to columns of tables here"
        return value_of(table, column, key)

    def _referred(self, place: Place) -> Place | None:
        for reference in self.tables[place[0]].references:
            if place[1] in reference.columns and (other := self.tables.get(reference.table)):
                key = reference.keys[reference.columns.index(place[1])]
                return (reference.table, key) if other.column(key) is not None else None
        return self.guessed.get(place)

    @cached_property
    def guessed(self) -> dict[Place, Place]:
        """References that no constraint has, by the column that refers."""
        return likely_references(self.tables)

    @cached_property
    def paired(self) -> dict[tuple[str, tuple[str, ...]], PairedKey]:
        """Keys with pairs that several tables have, by the table and the columns."""
        return paired_keys(self.tables, self.root, self.count, self.rows)

    def has_one_beside_pairs(self, place: Place) -> bool:
        """Return whether a column has one value in a key with pairs: these alone tell rows
        apart."""
        keys = (key for (table, _), key in self.paired.items() if table == place[0])
        return any(key.counts.get(place[1]) == 1 for key in keys)

    def is_null(self, table: Table, column: Column) -> bool:
        """Return whether a column is null because there is no row that it could refer to."""
        to = (each.table for each in table.references if column.name in each.columns)
        return not column.not_null and any(not self.rows(self.tables[each]) for each in to)

    def count(self, place: Place) -> int:
        """Return how many keys a column has, from 1 on."""
        root = self.root(place)
        if root not in self._counts:
            # Keys of tables that refer to each other ask for it meanwhile.
            self._counts[root] = max(1, self.rows(self.tables[root[0]]))
            self._counts[root] = self._counted(root)
        return self._counts[root]

    def _counted(self, root: Place) -> int:
        table = self.tables[root[0]]
        column = table.column(root[1])
        rows = max(1, self.rows(table))
        if column is None or (root[1],) in table.keys:
            return rows
        key = next((each for each in table.keys if root[1] in each), None)
        if key is None:
            return self._distinct(column, rows)
        least = self._digits(table, key)[root[1]]
        is_known = root[1] == key[-1] and column.distinct is not None
        return max(least, self._distinct(column, rows)) if is_known else least

    def used(self, place: Place) -> int:
        """Return how many of its keys a column has: of one that refers to another, those to which
        its rows refer, if that is known."""
        table, count = self.tables[place[0]], self.count(place)
        column = table.column(place[1])
        if column is None or column.distinct is None or self.root(place) == place:
            return count
        known = self._distinct(column, max(1, self.rows(table)))
        return known if known < _ALL_MIN * count else count

    def new_in_combinations(self, table: Table, column: Column, share: float) -> float:
        """Return the share of new values of a column of its own in a key of several, of rows of
        which such a share are new: others are new combinations of values that are there, as far as
        these are not taken. The number of values may grow with the rows."""
        key = next((each for each in table.keys if column.name in each), ())
        if len(key) < 2 or column.distinct is None:
            return share
        rows, count = max(1, self.rows(table)), self.count((table.full_name, column.name))
        taken = min(1.0, rows / math.prod(self.used((table.full_name, each)) for each in key))
        grows = count / rows if count >= GROWING_MIN * rows else 0.0
        return min(share, max(grows, 1 - (1 - share) / taken))

    def _distinct(self, column: Column, rows: int) -> int:
        most = 2 if column.base == "bool" else column.labels or rows
        if column.distinct is None:
            # Flags are set for few rows.
            return 1 if column.base == "bool" else most
        share = -column.distinct * rows if column.distinct < 0 else column.distinct
        return max(1, min(most, round(share)))

    def _digits(self, table: Table, key: tuple[str, ...]) -> dict[str, int]:
        """Return how many values each column of a key has, so that all of them together are at
        least as many as the rows; the last has as many as that takes."""
        rows = max(1, self.rows(table))
        if (paired := self.paired.get((table.full_name, key))) is not None:
            return dict(paired.counts)
        if left_out := {each for each in key if _is_null(table, each)} - {key[0]}:
            others = self._digits(table, tuple(each for each in key if each not in left_out))
            return {**others, **dict.fromkeys(left_out, 1)}
        if (lone := self._lone(table, key)) is not None:
            others = {name: self._own_count(table, name) for name in key if name != lone}
            return {**others, lone: rows}
        counts: dict[str, int] = {}
        left = rows
        for place, name in enumerate(key[:-1]):
            root = self.root((table.full_name, name))
            column = table.column(name)
            if root != (table.full_name, name):
                count = self.used((table.full_name, name))
            elif column is None or column.distinct is None:
                count = round(left ** (1 / (len(key) - place)))
            else:
                count = self._distinct(column, rows)
            counts[name] = max(1, min(count, left))
            left = math.ceil(left / counts[name])
        counts[key[-1]] = left
        return counts

    def made_by(self, statement: Statement) -> Place | None:
        """Return the key that the server makes for the row that a statement inserts, if that is of
        one column."""
        written = {each.column for each in statement.parameters if each.use == "inserted"}
        inserted = next((each for each in statement.parameters if each.use == "inserted"), None)
        table = None if inserted is None else self.tables.get(inserted.table)
        if table is None or not table.has_primary or len(table.keys[0]) > 1:
            return None
        (key,) = table.keys[0]
        return None if key in written else (table.full_name, key)

    def _lone(self, table: Table, key: tuple[str, ...]) -> str | None:
        """Return the column of a key of several that is unique by itself, such as the id beside the
        time by which a table is partitioned."""
        rows = max(1, self.rows(table))
        for name in key if len(key) > 1 else ():
            column, place = table.column(name), (table.full_name, name)
            if column is None or self.root(place) != place:
                continue
            is_known = column.distinct is not None or column.has_sequence
            if is_known and self._distinct(column, rows) >= _UNIQUE_MIN * rows:
                return name
        return None

    def _own_count(self, table: Table, name: str) -> int:
        root, column = self.root((table.full_name, name)), table.column(name)
        if column is None or root != (table.full_name, name):
            return self.count(root)
        return self._distinct(column, max(1, self.rows(table)))

    def is_key(self, place: Place) -> bool:
        """Return whether a column is a key by itself."""
        return (place[1],) in self.tables[place[0]].keys

    def tells_rows(self, table: Table, column: Column) -> bool:
        """Return whether a column has the values by which a key is none of a row: the last of its
        columns that have keys of their own."""
        if self.is_key((table.full_name, column.name)):
            return True
        places = [[(table.full_name, each) for each in key] for key in table.keys]
        own = ([each for each in key if self.root(each) == each] for key in places)
        return any(key and key[-1][1] == column.name for key in own)

    def of_reference(self, parameter: Parameter, known: Mapping[Place, str]) -> str | None:
        """Return the expression of a key that a statement writes for the row to which several
        columns refer, by expressions of keys that are known; None if these do not tell it."""
        is_written = parameter.use in WRITING
        for reference in self.tables[parameter.table].references if is_written else ():
            key = self._lone_key(reference.table, reference.keys)
            if key is None or parameter.column not in reference.columns:
                continue
            to = reference.keys[reference.columns.index(parameter.column)]
            own = self.root((reference.table, to))
            if own in key.counts and key.lone in known:
                return key.other(own, f"{known[key.lone]} - 1")
            other = next((each for each in key.counts if each in known), None)
            if own == key.lone and other is not None:
                return key.one_with(other, known[other])
        return None

    def _lone_key(self, name: str, columns: tuple[str, ...]) -> LoneKey | None:
        """Return a key of several columns to which others refer, if one of these decides them."""
        table = self.tables.get(name)
        key = next((each for each in table.keys if {*each} == {*columns}), ()) if table else ()
        lone = self._lone(table, key) if table is not None else None
        if table is None or lone is None:
            return None
        places = ((name, each) for each in key if each != lone)
        counts = {self.root(each): self.used(each) for each in places if self.root(each) != each}
        return LoneKey(self.root((name, lone)), counts, max(1, self.rows(table)))

    @cached_property
    def _lone_keys(self) -> dict[Place, LoneKey]:
        """Keys to which several columns refer, by the columns that one of them decides."""
        referring = [each for table in self.tables.values() for each in table.references]
        found = ((each, self._lone_key(each.table, each.keys)) for each in referring)
        return {
            (each.table, name): key
            for each, key in found
            if key is not None
            for name in each.keys
            if self.root((each.table, name)) in key.counts
        }

    def beside(self, table: Table, column: Column) -> str | None:
        """Return the column of a key that decides the values of another one in it."""
        keys = (key for key in table.keys if column.name in key)
        lone = next((found for key in keys if (found := self._lone(table, key))), None)
        is_own = self.root((table.full_name, column.name)) == (table.full_name, column.name)
        return lone if is_own and lone != column.name else None

    def of_number(self, table: Table, column: Column, number: str) -> str:
        """Return the key of a column whose values follow the rows, by the number of a row, an
        expression, from 0."""
        rows, count = max(1, self.rows(table)), self.count((table.full_name, column.name))
        return f"{number} * {count} / {rows} + 1" if count < rows else f"{number} + 1"

    def frequent(self, table: Table, column: Column) -> list[float]:
        """Return the shares of the values that a column has more often than others."""
        mean = 1 / self.used((table.full_name, column.name))
        return [each for each in column.frequent[:_FREQUENT_MAX] if each > _FREQUENT_MIN * mean]

    def drawn(self, place: Place, frequent: Sequence[float] = (), most: int | None = None) -> str:
        """Return the expression of a key of a column, drawn at random, with some that are more
        ``frequent`` than others; up to the highest one that it has, or to another."""
        count, left = most or self.used(place), 1.0
        choices = []
        for number, share in enumerate(frequent):
            chance = round(_CHANCES * min(1.0, share / left))
            choices.append(f"when random(1, {_CHANCES}) <= {chance} then ")
            choices[-1] += str(number * count // len(frequent) + 1)
            left = max(1e-9, left - share)
        other = f"random(1, {count})"
        return f"case {' '.join(choices)} else {other} end" if choices else other

    @staticmethod
    def skewed(count: int, exponent: float) -> str:
        """Return the expression of one of so many keys, drawn from a Zipf distribution over keys in
        random order. Below an exponent of 1 it is that of the integral, which can be inverted."""
        if exponent >= _ZIPF_MIN:
            rank = f"random_zipfian(1, {count}, {max(exponent, _ZIPFIAN_MIN)})"
        else:
            left = 1 - exponent
            part = f"random(0, {_PARTS - 1}) / {_PARTS}.0"
            rank = f"int(pow(1 + {part} * {(count + 1) ** left - 1:.9g}, {1 / left:.9g}))"
        return f"permute({rank} - 1, {count}) + 1"

    def of_row(self, table: Table, column: Column) -> str:
        """Return the expression of a column's key in the row ``:row``."""
        place, rows = (table.full_name, column.name), self.rows(table)
        if (of_path := self._of_path(table, column)) is not None:
            return of_path
        if (lone := self._lone_keys.get(place)) is not None:
            return lone.other(self.root(place), ":row")
        if (column.name,) in table.keys:
            return ":row + 1" if self._is_in_order(table, column) else f"permute(:row, {rows}) + 1"
        if any(column.name == self._lone(table, key) for key in table.keys):
            return ":row + 1"
        if self.beside(table, column):
            return self.of_number(table, column, ":row")
        for key in table.keys:
            if column.name in key and (paired := self.paired.get((table.full_name, key))):
                return paired.of_row(column.name)
            if column.name in key and self._lone(table, key) is None:
                digits = self._digits(table, key)
                number = _number_of(key, column.name, digits, rows)
                digit, whole = f"mod({number}, {digits[column.name]})", self.used(place)
                if column.name == key[-1] and whole > digits[column.name]:
                    # The rows of one beginning refer to others than those of the next.
                    beginning = _number_of(key, key[-2], digits, rows)
                    digit = f"mod({digit} + {beginning} * {STEP}, {whole})"
                return f"{digit} + 1"
        if column.correlation is not None and is_in_order(column):
            return self.of_number(table, column, ":row")
        frequent = self.frequent(table, column)
        if self.count(place) >= rows > 1 and not frequent and column.distinct is not None:
            is_unique = self._distinct(column, rows) >= _UNIQUE_MIN * rows
            return f"permute(:row, {rows}) + 1" if is_unique else self.drawn(place)
        return self.drawn(place, frequent)

    def path(self, table: Table) -> Path | None:
        """Return the path of a table over which recursive queries go, if it has one."""
        if not table.path:
            return None
        later, earlier = table.path
        root = self.root((table.full_name, later))
        is_tree = root == (table.full_name, later)
        return Path(later, earlier, is_tree, self.rows(table), self.count(root))

    def is_first(self, table: Table, column: Column) -> str | None:
        """Return the condition by which the row ``:row`` refers to none in a column, as it is the
        first one of a tree; None if there is none."""
        path = self.path(table)
        if path is None or not path.is_tree or column.name != path.earlier:
            return None
        own = table.column(path.later)
        return None if own is None else f"{self.of_row(table, own)} = 1"

    def _of_path(self, table: Table, column: Column) -> str | None:
        path = self.path(table)
        if path is None or column.name not in table.path:
            return None
        own = table.column(path.later) if path.is_tree and column.name == path.earlier else None
        return path.of_row(column.name, "" if own is None else f"({self.of_row(table, own)})")

    def _is_in_order(self, table: Table, column: Column) -> bool:
        """Return whether a key follows the order of the rows, as far as is known of it, or else of
        the one to which it refers."""
        root = self.root((table.full_name, column.name))
        other = self.tables[root[0]].column(root[1])
        return is_in_order(column if column.correlation is not None or other is None else other)


def _number_of(key: Sequence[str], name: str, digits: Mapping[str, int], rows: int) -> str:
    """Return the number of the part of a key up to a column in the row ``:row``, an expression from
    0. Rows follow each other that begin alike, and all beginnings have about as many."""
    if name == key[-1]:
        return ":row"
    between = math.prod(digits[each] for each in key[key.index(name) + 1 : -1])
    beginnings, last = math.prod(digits[each] for each in key[:-1]), digits[key[-1]]
    if beginnings * last == rows or beginnings > rows:
        return f":row / {between * last}" if between * last > 1 else ":row"
    number = f":row * {beginnings} / {rows}"
    return f"{number} / {between}" if between > 1 else number


def _is_null(table: Table, name: str) -> bool:
    column = table.column(name)
    return column is not None and column.is_always_null


def is_in_order(column: Column) -> bool:
    """Return whether the values of a column follow the order of the rows, as far as is known."""
    return column.correlation is None or column.correlation > _ORDERED_MIN
