"""Triggers and constraints that wait for COMMIT are executed, timed and counted beside a load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgdyno.plans._functions import COUNTING, count_functions
from pgdyno.plans._session import LoadLikeSession
from pgdyno.plans.tree import read_plan
from pgdyno.server import Cluster

if TYPE_CHECKING:
    from pgdyno._engine import SampledTransaction

pytestmark = pytest.mark.server

TABLES = """
create schema deferring;
create function deferring.slow() returns trigger language plpgsql
    as $$ declare n int := 0; begin for i in 1..200000 loop n := n + i % 7; end loop;
    return new; end $$;
create table deferring.parent (id int primary key);
create table deferring.child (
    parent_id int references deferring.parent deferrable initially deferred);
insert into deferring.parent select generate_series(1, 100);
insert into deferring.child select 1 from generate_series(1, 20000);
"""
TRIGGER = """
create constraint trigger slow after insert on deferring.parent deferrable initially deferred
    for each row execute function deferring.slow();
"""
INSERT = "insert into deferring.parent values (1000)"
DELETE = "delete from deferring.parent where id = 50"
CHILD_FIRST = "insert into deferring.child values (1000)"


def transaction(*statements: str) -> SampledTransaction:
    return {
        "group": "web",
        "script": "s",
        "statements": [
            {
                "position": number,
                "text": text,
                "parameterized": text,
                "parameters": [],
                "captures": None,
            }
            for number, text in enumerate(statements)
        ],
    }


@pytest.fixture
def server(pg: Cluster) -> Iterator[Cluster]:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute(TABLES.encode())
        yield pg
        connection.execute("drop schema deferring cascade")


@pytest.fixture
def session(server: Cluster) -> Iterator[LoadLikeSession]:
    with psycopg.connect(**server.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute(TRIGGER.encode())
    session = LoadLikeSession(server.conninfo, "prepared", settings=COUNTING)
    yield session
    session.close()


def shortest_ms(session: LoadLikeSession, *statements: str) -> dict[int, float]:
    """The shortest times of several executions: other programs make one of them longer."""
    runs = [session.execute(transaction(*statements)) for _ in range(7)]
    assert all(set(each) == set(runs[0]) for each in runs)
    return {position: min(each[position] for each in runs) for position in runs[0]}


def test_commit_has_the_time_of_what_is_deferred_to_it(session: LoadLikeSession) -> None:
    times_ms = shortest_ms(session, "begin", INSERT, "commit")
    assert set(times_ms) == {1, 2}
    assert times_ms[2] > times_ms[1]


def test_a_statement_alone_has_it_itself(session: LoadLikeSession) -> None:
    (alone_ms,) = shortest_ms(session, INSERT).values()
    in_block_ms = shortest_ms(session, "begin", INSERT, "commit")
    assert alone_ms > in_block_ms[1]


def test_functions_of_deferred_triggers_are_counted(session: LoadLikeSession) -> None:
    _, called = count_functions(session, [transaction("begin", INSERT, "commit")], 0.0)
    assert [(each.function, each.is_trigger, each.place[2]) for each in called] == [
        ("deferring.slow()", True, 2)
    ]


def test_explain_tells_of_deferred_foreign_keys(session: LoadLikeSession) -> None:
    explained = session.explain(transaction("begin", DELETE, "commit"), executes="everything")
    assert set(explained) == {1}
    plan, _ = explained[1]
    assert plan is not None
    (trigger,) = read_plan(plan).triggers
    assert trigger.constraint == "child_parent_id_fkey"


def test_an_order_that_only_deferred_constraints_permit(session: LoadLikeSession) -> None:
    script = transaction("begin", CHILD_FIRST, INSERT, "commit")
    explained = session.explain(script, executes="everything")
    assert [answer is not None for answer, _ in explained.values()] == [True, True]
    assert set(session.execute(script)) == {1, 2, 3}


def test_nothing_is_done_where_nothing_is_deferred(pg: Cluster) -> None:
    session = LoadLikeSession(pg.conninfo, "prepared")
    assert set(session.execute(transaction("begin", "select 1", "commit"))) == {1}
    session.close()
