"""Paths over which recursive queries go from row to row: they end, as each row refers to an earlier
one.

A path has two columns. In a tree the second one refers to the table's own key. Otherwise each row
has two of another table's: rows from one of these to another.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.clone.capture_file import WRITING, Parameter, Statement

STEP = 7919
"""A prime, by which numbers are spread."""


class Path(Struct, frozen=True):
    """The path of a table."""

    later: str
    earlier: str
    is_tree: bool
    rows: int
    """Of the table."""
    count: int
    """Keys that both columns may have."""

    def of_row(self, name: str, own: str) -> str | None:
        """Return the expression of the key that a column of the path has in the row ``:row``;
        ``own`` is that of a tree's key. None if the path does not decide it."""
        if self.is_tree:
            return f"random(1, greatest(1, {own} - 1))" if name == self.earlier else None
        if self.rows < self.count:
            return ":row + 2" if name == self.later else f"mod(:row * {STEP}, :row + 1) + 1"
        # Each two numbers of a circle are once so many steps apart.
        steps = max(1, (self.count - 1) // 2)
        one = f"mod(:row, {self.count})"
        other = f"mod(:row + {steps} - mod(:row / {self.count}, {steps}), {self.count})"
        return f"{'greatest' if name == self.later else 'least'}({one}, {other}) + 1"

    def beside(self, statement: Statement, parameter: Parameter) -> tuple[Parameter, int] | None:
        """Return the parameter for the later row that a statement has beside one for the earlier
        row that it writes, and how many of its values are between both. None of other parameters,
        and if the server numbers the later row: it is the last one."""
        if parameter.column != self.earlier or parameter.use not in WRITING:
            return None
        named = [(each.table, each.column) for each in statement.parameters]
        place = parameter.table, self.later
        if place not in named:
            return None
        at = named.index(place)
        return statement.parameters[at], -1 if at < statement.parameters.index(parameter) else 1

    def before(self, later: str) -> str:
        """Return the highest key that a row before another may have, by the key of that."""
        return f"least({self.count}, {later} - 1)"
