"""Values of rows that are there, for statements whose rows the load has deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pgdyno.plans._near_rows import finds_rows, near_values
from pgdyno.plans.tree import read_plan
from pgdyno.server import Cluster, connect_plain

if TYPE_CHECKING:
    from pgdyno._engine import SampledStatement
    from pgdyno.server.connecting.control import Control

pytestmark = pytest.mark.server

TABLES = """
create table near_row (
    id bigint primary key, "Key %" text not null, a int not null, b int not null, at timestamptz);
insert into near_row select g, 'it''s ' || g, g % 10, g % 100, '2026-01-01'
  from generate_series(1, 200) as g where g not between 50 and 60;
analyze near_row;
"""


@pytest.fixture
def connection(pg: Cluster) -> Iterator[Control]:
    with connect_plain(pg.conninfo) as connection:
        connection.execute("begin")
        connection.execute(TABLES.encode())
        yield connection
        connection.execute("rollback")


def statement(text: str, **values: str) -> SampledStatement:
    return {
        "position": 0,
        "text": text,
        "parameterized": text,
        "parameters": [*values.items()],
        "captures": None,
    }


def found(connection: Control, text: str, **values: str) -> tuple[bool, list[dict[str, str]]]:
    """Return whether a statement finds rows, and the values for it."""
    given = ", ".join(f"'{value}'".replace("it's", "it''s") for value in values.values())
    connection.execute("deallocate all")
    connection.execute(f"prepare near as {text}".encode())
    head = "explain (analyze, verbose, format json)"
    row = connection.execute(f"{head} execute near({given})".encode()).fetchone()
    assert row is not None
    plan = read_plan(row[0][0])
    return finds_rows(plan), [
        dict(each) for each in near_values(connection, plan, statement(text, **values))
    ]


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    ("text", "values", "nearest", "last"),
    [
        ("delete from near_row where id = $1", {"x": "55"}, {"x": "61"}, {"x": "47"}),
        ("update near_row set a = $1 where id = $2", {"n": "7", "x": "55"}, {"x": "61"},
         {"x": "47"}),
        ("""delete from near_row where "Key %" = $1 and b >= 0""", {"k": "it's 55"},
         {"k": "it's 6"}, {"k": "it's 48"}),
        ("delete from near_row where a = $1 and b = $2", {"a": "5", "b": "56"},
         {"a": "5", "b": "65"}, {"a": "5", "b": "45"}),
    ],
)  # fmt: skip
def test_the_nearest_rows(
    connection: Control,
    mode: str,
    text: str,
    values: dict[str, str],
    nearest: dict[str, str],
    last: dict[str, str],
) -> None:
    connection.execute(f"set local plan_cache_mode = {mode}".encode())
    finds, near = found(connection, text, **values)
    assert not finds
    assert (near[0], near[-1]) == (nearest, last)
    assert found(connection, text, **{**values, **nearest})[0]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("delete from near_row where id = $1", {"x": "5"}),  # It is there.
        ("select * from near_row where id = $1", {"x": "55"}),
        ("insert into near_row values ($1, 'k', 1, 1)", {"x": "55"}),
    ],
)
def test_a_statement_that_misses_no_row(
    connection: Control, text: str, values: dict[str, str]
) -> None:
    assert found(connection, text, **values) == (True, [])


def test_a_condition_that_compares_no_column(connection: Control) -> None:
    assert found(connection, "delete from near_row where id + 0 = $1", x="55") == (False, [])
