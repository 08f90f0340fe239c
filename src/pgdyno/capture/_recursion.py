"""Recursive queries: whether they end on the rows of a clone.

Each round of one goes from rows to others, by a column that it compares and one that it gives. It
ends if a round that gives no new rows is the last one (UNION), or if both columns name rows of the
same table, the second one an earlier row than the first, as in trees: the clone's rows are made in
this way. Other rows may refer to each other in a circle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdyno.capture._parameters import column_of, generic_plan
from pgdyno.capture._schema import EmptySchema
from pgdyno.capture._texts import is_recursive
from pgdyno.clone.capture_file import Parameter, Table
from pgdyno.clone.keys import Keys, Place
from pgdyno.plans.conditions import all_comparisons
from pgdyno.spec.sql_text import NAME, folded

if TYPE_CHECKING:
    from pgdyno.plans.tree import Node

_UNION, _LAST_ROUND = "Recursive Union", "WorkTable Scan"
"""Kinds of nodes: a recursive query, and the rows of its last round."""
_ALL = re.compile(r"\bunion\s+all\b", re.IGNORECASE)
_PLAIN = re.compile(rf"\$\d+|{NAME}\.{NAME}")
_PARAMETER = re.compile(r"\(*\$(\d+)\)*(?:::[^$]*)?")


class Recursion:
    """The recursive queries of a load."""

    def __init__(self, schema: EmptySchema) -> None:
        self._connection = schema.connection
        self._keys = Keys(schema.tables)
        self._tables = schema.by_name
        self._paths: dict[str, tuple[str, str]] = {}
        """Columns by which queries go from row to row, by table."""
        self.left_out = 0

    def parameters(
        self, text: str, parameters: tuple[Parameter, ...]
    ) -> tuple[Parameter, ...] | None:
        """Return the parameters of a statement, with the columns of those that are the first rows
        of a recursive query. None if that may not end."""
        if not is_recursive(text):
            return parameters
        found = [*parameters]
        plan = generic_plan(self._connection, text)
        for union in (node for node in plan.walk() if node.kind == _UNION):
            first, following = (each for each in union.children if not each.is_apart)
            compared = [*self._compared(following)]
            is_set = _ALL.search(text) is None and all(map(_PLAIN.fullmatch, following.output))
            if not is_set and not self._has_path(following, compared):
                self.left_out += 1
                return None
            if len(first.output) == len(compared) == 1:
                (table, column), number = compared[0], _PARAMETER.fullmatch(first.output[0])
                if number is not None:
                    place = int(number[1]) - 1
                    found[place] = replace(found[place], use="compared", table=table, column=column)
        return tuple(found)

    def with_paths(self, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        """Return the tables with the columns by which queries go from row to row."""
        return tuple(replace(each, path=self._paths.get(each.full_name, ())) for each in tables)

    def _has_path(self, following: Node, compared: list[Place]) -> bool:
        """Return whether a round goes from rows of a table to earlier ones, or from these to
        those; the first path of a table counts."""
        scanned = [node for node in following.walk() if node.relation]
        if len(scanned) != 1 or len(compared) != 1 or scanned[0].relation not in self._tables:
            return False
        (start,) = compared
        names = self._relations(following)
        given = {column_of(each, names) for each in following.output} - {None, start}
        ends = [each for each in given if each and self._keys.root(each) == self._keys.root(start)]
        if len(ends) != 1:
            return False
        path = self._ordered(start, ends[0])
        return path is not None and path == self._paths.setdefault(start[0], path)

    def _ordered(self, start: Place, end: Place) -> tuple[str, str] | None:
        """Return the columns of a path, the one of the later row first. None if rows cannot have
        it: a column that is a key by itself and refers to all rows of another table."""
        table, root = self._tables[start[0]], self._keys.root(start)
        if root in (start, end):
            later, earlier = (start, end) if root == start else (end, start)
            column = table.column(earlier[1])
            is_tree = (root[1],) in table.keys and column is not None and not column.not_null
            return (later[1], earlier[1]) if is_tree else None
        columns = [each.name for each in table.columns if each.name in (start[1], end[1])]
        is_few = self._keys.rows(table) < self._keys.count(root)
        return (columns[0], columns[1]) if is_few or (columns[0],) not in table.keys else None

    def _compared(self, following: Node) -> Iterator[Place]:
        """Yield the columns that a round compares with the rows of the last one."""
        names = self._relations(following)
        last = {node.alias for node in following.walk() if node.kind == _LAST_ROUND}
        seen: set[Place] = set()
        for node in following.walk():
            for condition in node.conditions.values():
                for each in all_comparisons(condition):
                    for side, other in each.sides() if each.operator == "=" else ():
                        place, of_last = column_of(side, names), _PLAIN.fullmatch(other)
                        is_of_last = of_last and folded(other.partition(".")[0]) in last
                        if place is not None and is_of_last and place not in seen:
                            seen.add(place)
                            yield place

    def _relations(self, node: Node) -> dict[str, str]:
        return {
            each.alias: self._tables[each.relation].full_name
            for each in node.walk()
            if each.relation in self._tables
        }
