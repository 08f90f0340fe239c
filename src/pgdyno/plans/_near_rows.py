"""Values for statements that change or delete rows which are gone: those of rows that are there.

When a load's DELETE is looked at, the load has deleted its rows. It would find none, and neither
triggers nor checks of foreign keys would run. So the variables that it compares columns with get
the values of other rows, which are as near to those that were sent as there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgdyno.plans.conditions import comparisons, plain_columns, refers_to, without_alias
from pgdyno.plans.tree import Node, Plan
from pgdyno.spec.sql_text import relation

if TYPE_CHECKING:
    from pgdyno._engine import SampledStatement
    from pgdyno.server.connecting.control import Control

ROWS_MAX = 3
"""Rows that are tried, on either side of the values."""
_CHANGES = ("Update", "Delete")
_CONSTANT = re.compile(r"(?s)(?:'((?:[^']|'')*)'(?:::.*)?|(-?[\w.]+))")
_PLACE = re.compile(r"\$(\d+)")


def finds_rows(plan: Plan) -> bool:
    """Return whether a plan that was executed found rows to change; True for one that changes none
    that are there."""
    return not any(_missing_scans(plan))


def near_values(
    conn: Control, plan: Plan, statement: SampledStatement
) -> Iterator[Mapping[str, str]]:
    """Yield the values of rows for the variables of a statement that found none; nothing if its
    plan does not show which columns they are compared with. Raises psycopg.Error."""
    for table, scan in _missing_scans(plan):
        compared = dict(_compared(scan, statement))
        if compared:
            for row in _near_rows(conn, table, [*compared], [v for _, v in compared.values()]):
                names = (name for name, _ in compared.values())
                yield {n: value for n, value in zip(names, row, strict=True) if value is not None}


def _missing_scans(plan: Plan) -> Iterator[tuple[str, Node]]:
    """Yield the tables whose rows a plan was to change and found none, each with its first scan."""
    for change in plan.nodes():
        if change.kind != "ModifyTable" or change.strategy not in _CHANGES:
            continue
        table = change.relation
        scans = [
            each
            for each in change.walk()
            if each.kind != "ModifyTable"
            and table in (each.relation, plan.wholes.get(each.relation))
        ]
        if scans and not any(each.rows for each in scans):
            yield table, scans[0]


def _compared(scan: Node, statement: SampledStatement) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the columns that a scan compares with variables, each with the variable and the value
    that was sent."""
    for condition in scan.scan_conditions:
        for comparison in comparisons(condition):
            for side, other in comparison.sides():
                column = without_alias(side, scan.alias)
                if comparison.operator == "=" and refers_to(side, scan.alias):
                    sent = _sent(other, statement)
                    if sent is not None and column in plain_columns([column]):
                        yield column, sent


def _sent(expression: str, statement: SampledStatement) -> tuple[str, str] | None:
    """Return the variable and the value that an expression stands for; None if it is no value that
    was sent."""
    parameters = statement["parameters"]
    if (place := _PLACE.fullmatch(expression)) is not None:
        name, value = parameters[int(place[1]) - 1]
        return None if value is None else (name, value)
    found = _CONSTANT.fullmatch(expression)
    text = None if found is None else (found[1] or found[2] or "").replace("''", "'")
    return next(((name, value) for name, value in parameters if value and value == text), None)


def _near_rows(
    conn: Control, table: str, columns: list[str], values: list[str]
) -> Iterator[tuple[str | None, ...]]:
    """Yield the rows next to ``values`` in the order of ``columns``, as text."""
    from psycopg import sql

    listed = ", ".join(f"near.{column}" for column in columns)
    sent = ", ".join(sql.Literal(each).as_string(conn) for each in values)
    texts = ", ".join(f"near.{column}::text" for column in columns)
    for operator, direction in ((">=", "asc"), ("<", "desc")):
        order = ", ".join(f"near.{column} {direction}" for column in columns)
        query = (
            f"select {texts} from {relation(table)} as near where ({listed}) {operator} ({sent})"
            f" order by {order} limit {ROWS_MAX}"
        )
        yield from conn.execute(query.encode()).fetchall()
