"""Pipelines on real servers: what is executed, what an error does, and what is counted."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from engine_runs import Run, config
from inline_snapshot import snapshot

from pgdyno.server import Cluster

pytestmark = [pytest.mark.server, pytest.mark.alike]

_PROTOCOLS = ["extended", "prepared"]


@pytest.fixture
def table(pg: Cluster) -> Iterator[psycopg.Connection[tuple[int, ...]]]:
    """A connection to a server with the table ``piped``, filled with 1 … 4."""
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists piped")
        connection.execute(
            "create table piped (k int, n int default 0, unique (k) deferrable initially deferred)"
        )
        connection.execute("insert into piped select generate_series(1, 4)")
        yield connection
        connection.execute("drop table piped")


def _statements(run: Run) -> dict[int, tuple[int, int]]:
    """By position: how often a statement was done, and failed."""
    counts: dict[int, tuple[int, int]] = {}
    for interval in run.intervals:
        for row in interval["statements"]:
            done, failed = counts.get(row["position"], (0, 0))
            counts[row["position"]] = (done + row["done"], failed + row["failed"])
    return counts


def _sum(table: psycopg.Connection[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return table.execute("select k, n from piped order by k").fetchall()


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_a_pipeline_does_what_its_statements_do(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]], protocol: str
) -> None:
    script = """
\\set k :client_id + 1
\\set one 1
\\startpipeline
update piped set n = n + :one where k = :k;
select ':k';
\\set one 2
\\syncpipeline
begin isolation level serializable;
select n from piped where k = :k::int;
update piped set n = n + :one where k = :k;
end;
\\endpipeline
select 1;
"""
    with Run(config(pg.conninfo, script, protocol=protocol, max_tries=1000)) as run:
        run.wait_for_more("done", 100)
    run.assert_balanced()
    total = run.total
    assert not run.errors.keys() - {("40001", False, True)}
    assert total["reconnects"] == 0
    done = _statements(run)
    assert all(done[position][0] >= total["done"] for position in range(7))
    assert done[6] == (total["done"], 0)
    assert sum(n for _, n in _sum(table)) == done[0][0] + 2 * done[5][0]


@pytest.mark.parametrize("protocol", ["simple", *_PROTOCOLS])
def test_changes_of_no_row_are_counted(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]], protocol: str
) -> None:
    changes = """
update piped set n = n + 1 where k = 99;
update piped set n = n + 1 where k = :client_id + 1;
delete from piped where k = 99;
select n from piped where k = 99;
"""
    piped = f"\\startpipeline{changes}\\endpipeline" if protocol != "simple" else changes
    with Run(config(pg.conninfo, changes, piped, protocol=protocol, max_tries=1000)) as run:
        run.wait_for_more("done", 100)
    run.assert_balanced()
    rows = [row for interval in run.intervals for row in interval["statements"]]
    for script in ("s0", "s1"):
        for position, none in enumerate((True, False, True, False)):
            mine = [r for r in rows if (r["script"], r["position"]) == (script, position)]
            done = sum(row["done"] for row in mine)
            assert done > 0
            assert sum(row["untouched"] for row in mine) == (done if none else 0)


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_rounds_within_a_pipeline(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]], protocol: str
) -> None:
    script = """
\\set k :client_id + 1
\\startpipeline
\\for round 5
update piped set n = n + :round where k = :k;
\\endfor
\\endpipeline
"""
    with Run(config(pg.conninfo, script, protocol=protocol)) as run:
        run.wait_for_more("done", 100)
    run.assert_balanced()
    total = run.total
    assert (total["failed"], total["reconnects"]) == (0, 0)
    assert _statements(run)[0] == (5 * total["done"], 0)
    assert sum(n for _, n in _sum(table)) == 15 * total["done"]


@pytest.mark.parametrize("protocol", _PROTOCOLS)
def test_after_an_error_the_server_skips_to_the_next_sync(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]], protocol: str
) -> None:
    script = """
\\set k :client_id + 1
\\set zero 0
\\startpipeline
update piped set n = n + 1 where k = :k;
\\syncpipeline
update piped set n = n + 1000000 where k = :k;
select 1 / :zero::int;
update piped set n = n + 1000000 where k = :k;
\\syncpipeline
update piped set n = n + 1 where k = :k;
\\endpipeline
update piped set n = n + 1000000 where k = :k;
"""
    with Run(config(pg.conninfo, script, protocol=protocol)) as run:
        run.wait_for_more("failed", 100)
    run.assert_balanced()
    total = run.total
    assert (total["done"], total["reconnects"]) == (0, 0)
    assert set(run.errors) == {("22012", False, False)}
    done = _statements(run)
    assert done[2] == (0, total["failed"])
    assert done[3] == (0, 0)
    assert done[5] == (0, 0)
    # What follows the next Sync was sent already.
    assert done[0] == done[4] == (total["failed"], 0)
    assert sum(n for _, n in _sum(table)) == 2 * total["failed"]
    errors = [row for interval in run.intervals for row in interval["errors"]]
    assert {row["statement"] for row in errors} == {"select 1 / :zero::int"}


def test_a_block_that_a_pipeline_leaves_open_is_rolled_back(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]]
) -> None:
    failing = """
\\startpipeline
begin;
update piped set n = n + 1;
select nonsense;
end;
\\endpipeline
"""
    unfinished = "\\startpipeline\nbegin;\nupdate piped set n = n + 1;\n\\endpipeline\n"
    with Run(config(pg.conninfo, failing, unfinished)) as run:
        run.wait_for_more("failed", 50)
    run.assert_balanced()
    assert set(run.errors) == {("42703", False, False), ("transaction-left-open", False, False)}
    assert run.total["reconnects"] == 0
    assert _sum(table) == [(1, 0), (2, 0), (3, 0), (4, 0)]


_BEFORE = """
\\set zero 0
\\startpipeline
begin;
update piped set n = n + 1 where k = :client_id + 1;
savepoint a;
select 1 / :zero::int;
\\syncpipeline
"""


def test_an_error_that_a_savepoint_takes_back_does_not_fail_what_is_committed(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]]
) -> None:
    script = _BEFORE + "rollback to a;\ncommit;\n\\endpipeline\nselect 1;\n"
    with Run(config(pg.conninfo, script)) as run:
        run.wait_for_more("done", 50)
    run.assert_balanced()
    total = run.total
    assert (total["failed"], total["reconnects"]) == (0, 0)
    assert run.errors == {("22012", True, False): total["done"]}
    assert sum(n for _, n in _sum(table)) == total["done"]


@pytest.mark.parametrize(
    "after",
    [
        "commit;\n",
        "rollback to a;\nrollback;\n",
        # What is committed is another transaction.
        "commit;\nbegin;\nselect 1;\ncommit;\n",
    ],
)
def test_an_error_fails_what_is_not_committed_after_it(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]], after: str
) -> None:
    with Run(config(pg.conninfo, _BEFORE + after + "\\endpipeline\nselect 1;\n")) as run:
        run.wait_for_more("failed", 50)
    run.assert_balanced()
    assert (run.total["done"], run.total["reconnects"]) == (0, 0)
    assert set(run.errors) == {("22012", False, False)}
    assert _sum(table) == [(1, 0), (2, 0), (3, 0), (4, 0)]


def test_an_error_that_only_the_sync_brings_up_fails_the_transaction(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]]
) -> None:
    script = "\\startpipeline\ninsert into piped values (1);\nselect 1;\n\\endpipeline\n"
    with Run(config(pg.conninfo, script)) as run:
        run.wait_for_more("failed", 50)
    run.assert_balanced()
    assert set(run.errors) == {("23505", False, False)}
    assert _statements(run) == dict.fromkeys((0, 1), (run.total["failed"], 0))
    assert len(_sum(table)) == 4


def test_a_transaction_in_a_pipeline_is_tried_again(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]]
) -> None:
    script = """
\\startpipeline
begin isolation level serializable;
select sum(n) from piped;
update piped set n = n + 1 where k = 1;
end;
\\endpipeline
"""
    with Run(config(pg.conninfo, script, max_tries=1000)) as run:
        run.wait_for(lambda run: run.total["retried"] > 20)
    run.assert_balanced()
    total = run.total
    assert (total["failed"], total["reconnects"]) == (0, 0)
    assert set(run.errors) == {("40001", False, True)}
    assert _sum(table)[0] == (1, total["done"])


def test_scripts_that_fail_inside_a_pipeline_let_the_connection_go_on(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]]
) -> None:
    # Each client has a row of its own: nobody waits for another's.
    update = "update piped set n = n + 1 where k = :client_id + 1;"
    begin = f"\\set zero 0\n\\startpipeline\n{update}\n"
    end = "\\endpipeline\nselect 1;\n"
    scripts = [
        begin + "\\set x 1 / :zero\n" + end,
        begin + "\\if :zero = 0\n\\startpipeline\n\\endif\n" + end,
        "\\set zero 0\n\\if :zero\n\\startpipeline\n\\endif\n\\endpipeline\nselect 1;\n",
        begin + "\\if :zero\n\\endpipeline\n\\endif\nselect 1;\n",
        begin + "\\if true\n\\syncpipeline\n\\endif\nselect 1 as x \\gset\n" + end,
        # The error comes while the script is asleep.
        "\\startpipeline\nselect nonsense;\n\\sleep 5 ms\nselect 1;\n" + end,
        "\\startpipeline\nselect 1;\n\\sleep 2 ms\nselect 2;\n\\syncpipeline\n\\sleep 2 ms\n" + end,
        "\\startpipeline\n\\endpipeline\nselect 1;\n",
    ]

    def row_counts(run: Run, key: str) -> list[int]:
        sums = [0] * len(scripts)
        for interval in run.intervals:
            for row in interval["scripts"]:
                sums[int(row["script"][1:])] += row[key]  # type: ignore[literal-required]
        return sums

    with Run(config(pg.conninfo, *scripts)) as run:
        run.wait_for(
            lambda run: (
                min(row_counts(run, "failed")[:6]) > 5 and min(row_counts(run, "done")[6:]) > 5
            )
        )
    run.assert_balanced()
    assert row_counts(run, "done")[:6] == [0] * 6
    assert row_counts(run, "failed")[6:] == [0] * 2
    assert run.total["reconnects"] == 0
    assert set(run.errors) == {("script-error", False, False), ("42703", False, False)}
    messages = {
        row["message"]
        for interval in run.intervals
        for row in interval["errors"]
        if row["sqlstate"] == "script-error"
    }
    assert messages == snapshot(
        {
            "division by zero",
            "\\startpipeline inside a pipeline",
            "there is no pipeline to synchronize or end",
            "the script ended inside a pipeline",
            "\\gset cannot be used in a pipeline",
        }
    )


def test_a_connection_that_ends_in_mid_pipeline_is_made_again(
    pg: Cluster, table: psycopg.Connection[tuple[int, ...]]
) -> None:
    script = """
\\startpipeline
update piped set n = n + 1 where k = :client_id + 1;
select pg_terminate_backend(pg_backend_pid());
update piped set n = n + 1;
\\endpipeline
"""
    with Run(config(pg.conninfo, script, backoff_ms_min=1, backoff_ms_max=5)) as run:
        run.wait_for_more("failed", 10)
    run.assert_balanced()
    assert set(run.errors) == {("57P01", False, False)}
    assert run.total["reconnects"] > 4
    assert _sum(table) == [(1, 0), (2, 0), (3, 0), (4, 0)]


def test_a_long_pipeline_goes_both_ways_at_once(pg18: Cluster) -> None:
    # More than sockets hold in either direction.
    script = "\\startpipeline\n" + "select repeat('x', 20000);\n" * 1000 + "\\endpipeline\n"
    with Run(config(pg18.conninfo, script, clients=2)) as run:
        run.wait_for_more("done", 2)
    run.assert_balanced()
    assert not run.errors
