"""The functions, triggers and views of a database that its load uses, without values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdyno.capture._code import (
    Known,
    definition,
    has_values,
    is_dynamic,
    names_in,
    without_literals,
)
from pgdyno.capture._queries import rows_of
from pgdyno.capture._tokens import Unreadable
from pgdyno.clone.capture_file import Function, Table, View
from pgdyno.numbers import counted, listed
from pgdyno.spec.sql_text import NAME, folded

if TYPE_CHECKING:
    import psycopg

    from pgdyno.json_types import Row

FUNCTIONS_MAX = 5000


class Functions:
    """The functions of a database by their ids, the triggers of its tables, and its views."""

    def __init__(
        self, connection: psycopg.Connection[Any], ids: Sequence[int], known: Known
    ) -> None:
        """Read the catalogue. Raises psycopg.Error."""
        self._known = known
        rows = rows_of(connection, "functions", {"most": FUNCTIONS_MAX})
        self._rows = {int(row["id"]): row for row in rows}
        self._triggers: defaultdict[int, list[Row]] = defaultdict(list)
        for row in rows_of(connection, "triggers", {"tables": [*ids]}):
            self._triggers[int(row["table_id"])].append(row)
        self._views = rows_of(connection, "views", {"most": FUNCTIONS_MAX})

    def of_load(
        self, texts: Iterable[str], tables: Mapping[int, Table], gaps: list[str]
    ) -> tuple[tuple[Table, ...], tuple[Function, ...], tuple[View, ...]]:
        """Return the tables with their triggers, the functions that these and the statements call,
        themselves or by others, and the views. What is left out goes to the ``gaps``."""
        texts = [*texts]
        called = _names_in([*texts, *(each for t in tables.values() for each in _code_of(t))])
        wanted = {int(row["function_id"]) for rows in self._triggers.values() for row in rows}
        wanted |= {number for number, row in self._rows.items() if row["name"] in called}
        kept, lost = self._with_called(wanted & self._rows.keys())
        with_triggers = []
        for number, table in tables.items():
            triggers = tuple(self._triggers_of(number, kept, lost))
            with_triggers.append(replace(table, triggers=triggers))
        if lost:
            where = counted(len(lost), "place", "places")
            gaps.append(
                "functions with dynamic SQL or COPY, or in other languages than SQL and PL/pgSQL,"
                f" are left out with their triggers ({where}: {listed(sorted(lost), 3)})"
            )
        functions = tuple(kept.values())
        views = self._views_of([*texts, *(each.sql for each in functions)], gaps)
        return tuple(with_triggers), functions, views

    def _with_called(self, wanted: set[int]) -> tuple[dict[int, Function], set[str]]:
        """Return functions with those that they call, and the names of those left out."""
        kept: dict[int, Function] = {}
        lost: set[str] = set()
        seen: set[int] = set()
        while wanted - seen:
            number = min(wanted - seen)
            seen.add(number)
            row = self._rows[number]
            function = self._function(row)
            if function is None:
                lost.add(row["name"])
                continue
            kept[number] = function
            called = names_in(function.sql)
            wanted |= {other for other, row in self._rows.items() if row["name"] in called}
        return {number: kept[number] for number in sorted(kept)}, lost

    def _function(self, row: Row) -> Function | None:
        """Return a function without its values; None if it cannot be had."""
        try:
            if row["sql"] is None or is_dynamic(row["body"]):
                return None
            return Function(row["schema"], row["name"], definition(row["sql"], self._known))
        except Unreadable:
            return None

    def _triggers_of(
        self, table: int, kept: Mapping[int, Function], lost: set[str]
    ) -> Iterator[str]:
        for row in self._triggers[table]:
            try:
                if int(row["function_id"]) in kept:
                    yield without_literals(row["sql"], self._known)
                    continue
            except Unreadable:
                pass
            lost.add(row["name"])

    def _views_of(self, texts: Iterable[str], gaps: list[str]) -> tuple[View, ...]:
        """Return the views that some texts name, and those that these do, if they have no values.
        Others go to the ``gaps``."""
        named = _names_in(texts)
        kept: dict[str, View] = {}
        lost: set[str] = set()
        while new := [
            row
            for row in self._views
            if row["name"] in named and row["name"] not in kept and row["name"] not in lost
        ]:
            for row in new:
                if (view := _view(row)) is None:
                    lost.add(row["name"])
                else:
                    kept[row["name"]] = view
                    named |= names_in(view.sql)
        if lost:
            where = counted(len(lost), "place", "places")
            gaps.append(
                f"views with values in their text are left out ({where}: {listed(sorted(lost), 3)})"
            )
        return tuple(kept.values())


def _names_in(texts: Iterable[str]) -> set[str]:
    """Return all that could be a name in texts that may be cut."""
    return {folded(each) for text in texts for each in re.findall(NAME, text)}


def _code_of(table: Table) -> Iterator[str]:
    """Yield the parts of a table that may call functions."""
    yield from table.checks
    yield from (each.generated for each in table.columns)
    yield from (each.sql for each in table.indexes)


def _view(row: Row) -> View | None:
    """Return a view; None of one with values."""
    try:
        if has_values(row["sql"]):
            return None
    except Unreadable:
        return None
    return View(row["schema"], row["name"], row["sql"].strip().removesuffix(";"))
