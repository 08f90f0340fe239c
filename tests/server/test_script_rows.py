"""Statements as applications send them: COPY streams, VALUES of many rows, notices, LISTEN."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config

from pgdyno._engine import ScriptError, check_script
from pgdyno.server import Cluster

pytestmark = [pytest.mark.server, pytest.mark.alike]

_PROTOCOLS = ["simple", "extended", "prepared"]
_ODD = 'tab\there\nline \\N \\. it\'s "quoted" back\\slash\r é'


@pytest.fixture
def table(pg: Cluster) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection to a server with the empty table ``made``."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists made")
        connection.execute(
            "create table made"
            " (k bigint, i int, d double precision, b boolean, u uuid, t text, n numeric)"
        )
        yield connection
        connection.execute("drop table made")


def _run(pg: Cluster, script: str, **keys: Any) -> Run:
    """A client with one transaction, unless ``keys`` say otherwise."""
    keys = {"clients": 1, "transactions": 1, "variables": {"odd": _ODD, "many": "3"}, **keys}
    with Run(config(pg.conninfo, script, **keys)) as run:
        run.wait_for(lambda run: run.load.state() == "stopped")
    run.assert_balanced()
    return run


_COLUMNS = ":row + 100, random(1, 5), :row / 2.0, :row % 2 = 0, random_uuid(), :odd, null"
_STATEMENTS = {
    "copy": f"copy made from stdin \\rows 3 {_COLUMNS}",
    "copy columns": f"COPY made (k, i, d, b, u, t, n) FROM STDIN\n  \\rows :many {_COLUMNS}",
    "copy options": f"copy made from stdin with (freeze off) where n is null \\rows 3 {_COLUMNS}",
    "values": f"insert into made values \\rows 3 {_COLUMNS}",
    "values by variable": f"insert into made (k, i, d, b, u, t, n) VALUES \\rows :many {_COLUMNS}",
    "place": f"insert into made values :rows on conflict do nothing \\rows 3 {_COLUMNS}",
}


@pytest.mark.parametrize("protocol", _PROTOCOLS)
@pytest.mark.parametrize("name", _STATEMENTS)
def test_rows_arrive_as_they_were_made(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]], name: str, protocol: str
) -> None:
    run = _run(pg, _STATEMENTS[name], protocol=protocol, transactions=2)
    assert not run.errors, run.last["errors"]
    rows = table.execute("select k, i, d, b, u, t, n from made order by k, u").fetchall()
    assert [row[0] for row in rows] == [100, 100, 101, 101, 102, 102]
    for k, i, d, b, u, t, n in rows:
        assert 1 <= i <= 5
        assert (d, b, t, n) == ((k - 100) / 2, k % 2 == 0, _ODD, None)
        assert uuid.UUID(str(u)).version == 4
    assert len({row[4] for row in rows}) == 6


def test_a_statements_own_parameters_come_first(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]]
) -> None:
    script = (
        "\\set base 7\ninsert into made (k, i) select a + :base::int, b::int from"
        " (values (0, 0), :rows) as v (a, b) where a < :base::int \\rows 9 :row, 5"
    )
    for protocol in _PROTOCOLS:
        run = _run(pg, script, protocol=protocol)
        assert not run.errors, run.last["errors"]
        rows = table.execute("select k, i from made order by k, i").fetchall()
        assert rows == [(7, 0), *((7 + row, 5) for row in range(7))]
        table.execute("truncate made")


def test_text_in_quotes_and_odd_numbers(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]]
) -> None:
    row = "-5, 1, 1.0 / 0, null, null, 'it''s, a \\\\N', -0.25"
    for statement in ("copy made from stdin", "insert into made values"):
        for protocol in _PROTOCOLS:
            assert not _run(pg, f"{statement} \\rows 2 {row}", protocol=protocol).errors
    wanted = (-5, 1, float("inf"), None, None, "it's, a \\\\N", -0.25)
    rows = table.execute("select distinct k, i, d, b, u, t, n::float from made").fetchall()
    assert rows == [wanted]
    assert table.execute("select count(*) from made").fetchone() == (12,)


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_a_long_copy_is_streamed_while_others_work(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]], protocol: str
) -> None:
    copy = "copy made (k, t) from stdin \\rows 200000 :row, 'some text that makes it longer'"
    keys = {"clients": 3, "transactions": None, "weights": (1, 3), "protocol": protocol}
    with Run(config(pg.conninfo, copy, "select 1;", **keys), drain_ms=120_000) as run:
        run.wait_for(
            lambda run: all(
                sum(r["done"] for i in run.intervals for r in i["scripts"] if r["script"] == s) > 1
                for s in ("s0", "s1")
            )
        )
    run.assert_balanced()
    assert not run.errors
    copies = sum(r["done"] for i in run.intervals for r in i["scripts"] if r["script"] == "s0")
    count = table.execute("select count(*), sum(k) from made").fetchone()
    assert count == (200000 * copies, copies * 199999 * 100000)


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_a_copy_that_fails_leaves_the_connection_usable(
    pg: Cluster, table: psycopg.Connection[tuple[Any, ...]], protocol: str
) -> None:
    scripts = [
        # The server finds fault in the middle, long after more was sent.
        "copy made (k, i) from stdin \\rows 100000 :row, :row * 1000000",
        "copy made (k) from stdin \\rows 10000 1 / (9000 - :row)",
        "copy nowhere from stdin \\rows 5 1",
        "copy made (k) from stdin;",
        "begin;\ncopy made (k) from stdin \\rows 3 'x'\nend;",
        "copy made (k) from stdin \\rows 0 1",
    ]
    keys = {"clients": 2, "transactions": 30, "protocol": protocol, "variables": {"none": "x"}}
    with Run(config(pg.conninfo, *scripts, **keys)) as run:
        run.wait_for(lambda run: run.load.state() == "stopped")
    run.assert_balanced()
    codes = {code for code, _, _ in run.errors}
    assert codes == {"22003", "script-error", "42P01", "57014", "22P02"}
    assert run.total["reconnects"] == 0
    assert table.execute("select count(*) from made").fetchone() == (0,)


def test_counts_that_cannot_be(pg18: Cluster) -> None:
    rows = "create temp table if not exists t (a int, b int);\ninsert into t values \\rows :n 1, 2"
    for value, message in {
        "0": "\\rows needs at least one row for VALUES",
        "-1": "-1 is not a number of rows",
        "x": 'variable "n" is not a number: "x"',
        "40000": "40000 rows of 2 values make 80000 parameters of the statement,"
        " which takes at most 65535",
    }.items():
        run = _run(pg18, rows, variables={"n": value})
        assert [row["message"] for i in run.intervals for row in i["errors"]] == [message]
    assert not _run(pg18, rows, variables={"n": "32767"}).errors
    assert not _run(pg18, rows.replace(":n", "32767"), protocol="extended").errors


_REFUSED = {
    "select 1 \\rows 5 1": "has no position for the rows",
    "\\rows 5 1\nselect 1": "must follow an SQL statement",
    "insert into t values \\rows": "needs a count",
    "insert into t values \\rows many 1": '"many" is not a number of rows',
    "insert into t values \\rows 5": "found the end of the line",
    "insert into t values \\rows 5 1 2": "a comma or the end of the row",
    "insert into t values \\rows 5 1,": "found the end of the line",
    "insert into t values \\rows 5 'x": "never closed",
    "insert into t values \\rows 0 1": "at least one row",
    "insert into t values \\rows 65536 1": "65536 parameters",
    "copy t from stdin csv \\rows 5 1": 'without "csv"',
    "copy t from stdin (format binary) \\rows 5 1": 'without "binary"',
    "copy t to stdout \\rows 5 1": "has no position for the rows",
    "select 1 \\; insert into t values \\rows 5 1": "joined by \\;",
    "\\startpipeline\ncopy t from stdin \\rows 5 1\n\\endpipeline": "cannot be used in a pipeline",
}


@pytest.mark.parametrize("script", _REFUSED)
def test_rows_that_make_no_sense_are_refused(script: str) -> None:
    with pytest.raises(ScriptError) as caught:
        check_script(script, "rows.sql")
    assert _REFUSED[script] in caught.value.message


def test_rows_in_a_pipeline(pg: Cluster, table: psycopg.Connection[tuple[Any, ...]]) -> None:
    script = """
\\startpipeline
insert into made (k) values \\rows 10 :row
insert into made (k) values \\rows :many :row + 10
\\endpipeline
"""
    for protocol in ("extended", "prepared"):
        assert not _run(pg, script, protocol=protocol, transactions=2).errors
    assert table.execute("select count(*), max(k) from made").fetchone() == (4 * 13, 12)


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_notices_notifications_and_settings_in_between_are_nothing(
    pg: Cluster, protocol: str
) -> None:
    script = """
listen channel;
do $$ begin raise notice 'a remark'; raise warning 'a warning'; end $$;
notify channel, 'for everybody';
set timezone to 'UTC';
set client_min_messages to debug1;
begin;
savepoint s;
notify channel;
release s;
end;
select 1 as x \\; select 2 as x \\; set timezone to 'CET';
unlisten *;
"""
    with Run(config(pg.conninfo, script, "select 1;", protocol=protocol)) as run:
        run.wait_for_more("done", 50)
    run.assert_balanced()
    assert not run.errors
