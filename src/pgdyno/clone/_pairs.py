"""Pairs of rows of two tables that the keys of others have in common, such as those of rooms with
their members.

Few of all pairs are there, and each table has the same ones: the n-th is that of the n-th row of
both tables, which begin again behind their last row, the second one a row later after each turn.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from pgdyno.clone._likely import Place
from pgdyno.clone.capture_file import Table

_Key: TypeAlias = tuple[str, tuple[str, ...]]
"""Table, and the columns of its key."""


class Pair(Struct, frozen=True):
    """Columns of two tables, the rows of each with a key of both."""

    columns: tuple[Place, Place]
    counts: tuple[int, int]
    rows: int
    """Pairs that are there."""

    @property
    def all(self) -> int:
        """Pairs that could be there."""
        return self.counts[0] * self.counts[1]

    @property
    def _turn(self) -> int:
        return math.lcm(*self.counts)

    @property
    def turns(self) -> int:
        """Turns in which each row of one table has another one beside it."""
        return max(1, self.rows // self._turn)

    @property
    def place(self) -> Place:
        """Stand-in for the number of a pair among columns."""
        return "", " ".join(".".join(each) for each in self.columns)

    def other(self, column: Place) -> Place:
        """Return the column beside one."""
        return self.columns[self.columns[0] == column]

    def key(self, column: Place, number: str) -> str:
        """Return the key of a column in a pair, by the pair's number, an expression from 0."""
        if column == self.columns[0]:
            return f"mod({number}, {self.counts[0]}) + 1"
        later = f" + {number} / {self._turn}" if self._turn < self.all else ""
        return f"mod({number}{later}, {self.counts[1]}) + 1"

    def beside(self, column: Place, key: str, turn: str) -> str:
        """Return the key of a column in one of the pairs that have a key of the other one, both
        expressions, and are in a turn, the number of which is an expression from 0."""
        is_first = column == self.columns[0]
        own, others = self.counts if is_first else self.counts[::-1]
        times = max(1, min(self.rows, self._turn) // others)
        more = f" + {others} * random(0, {times - 1})" if times > 1 else ""
        if is_first:
            return f"mod(mod({key} - 1 - {turn} + {others}, {others}){more}, {own}) + 1"
        return f"mod({key} - 1{more} + {turn}, {own}) + 1"


class PairedKey(Struct, frozen=True):
    """A key of a table that has a pair among its columns."""

    table: str
    pair: Pair
    roots: Mapping[str, Place]
    """Columns to which its own refer, or these themselves."""
    own: frozenset[str]
    """Those that refer to none."""
    counts: Mapping[str, int]
    """Values of each of its columns."""

    @property
    def is_whole(self) -> bool:
        """True if it has no other columns."""
        return len(self.roots) == len(self.pair.columns)

    def of_row(self, name: str) -> str:
        """Return the expression of a column's key in the row ``:row``."""
        root, count = self.roots[name], self.counts[name]
        if root in self.pair.columns:
            return self.pair.key(root, ":row" if self.is_whole else f"mod(:row, {self.pair.rows})")
        if name in self.own:
            return f":row / {self.pair.rows} + 1" if count > 1 else "1"
        return f"mod(:row + :row / {math.lcm(self.pair.rows, count)}, {count}) + 1"


def paired_keys(
    tables: Mapping[str, Table],
    root: Callable[[Place], Place],
    count: Callable[[Place], int],
    rows: Callable[[Table], int],
) -> dict[_Key, PairedKey]:
    """Return the keys with a pair that several tables have, the first one of each. It is the whole
    key of a table that has all rows of both."""
    having: defaultdict[tuple[Place, Place], list[_Key]] = defaultdict(list)
    for table in tables.values():
        for key in table.keys:
            for both in _both(table, key, tables, root):
                having[both].append((table.full_name, key))
    found: dict[_Key, PairedKey] = {}
    for both, those in having.items():
        wholes = [name for name, key in those if len(key) == len(both)]
        most = max((rows(tables[each]) for each in wholes), default=0)
        pair = Pair(both, (count(both[0]), count(both[1])), most)
        if len({name for name, _ in those}) > 1 and max(pair.counts) <= most < pair.all:
            for name, key in those:
                roots = {each: root((name, each)) for each in key}
                own = frozenset(each for each in key if roots[each] == (name, each))
                counts = {each: 1 if each in own else count(roots[each]) for each in key}
                null = {each.name for each in tables[name].columns if each.is_always_null}
                last = next((each for each in reversed(key) if each in own - null), None)
                room = most * math.prod(counts[each] for each in key if roots[each] not in both)
                if last is not None and rows(tables[name]) > room:
                    counts[last] = -(-rows(tables[name]) // most)
                found.setdefault((name, key), PairedKey(name, pair, roots, own, counts))
    return found


def _both(
    table: Table,
    key: tuple[str, ...],
    tables: Mapping[str, Table],
    root: Callable[[Place], Place],
) -> Iterator[tuple[Place, Place]]:
    """Yield two columns of other tables, keys by themselves, to which columns of a key refer."""
    own = [(table.full_name, each) for each in key]
    referred = [root(each) for each in own]
    able = (
        to
        for place, to in zip(own, referred, strict=True)
        if to != place and (to[1],) in tables[to[0]].keys
    )
    yield from itertools.combinations(sorted({*able}), 2)
