"""What goes wrong under a load on real servers is counted, by SQLSTATE, and the load goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config

from patience import wait_until
from pgdyno.server import Cluster, ConnInfo, connect_plain

pytestmark = [pytest.mark.server, pytest.mark.alike]

SELECT = "select 1;"


def terminate_clients(conninfo: ConnInfo, count: int) -> None:
    """End every backend of a load that has so many; those of loads before take a moment to end."""
    query = (
        "select count({}) from pg_stat_activity"
        " where application_name = 'pgdyno' and backend_type = 'client backend'"
    )
    with psycopg.connect(**conninfo.kwargs(), autocommit=True) as connection:
        there = query.format("*").encode()
        wait_until(lambda: connection.execute(there).fetchone() == (count,), f"{count} sessions")
        ended = connection.execute(query.format("pg_terminate_backend(pid)").encode()).fetchone()
    assert ended == (count,)


def test_errors_are_told_apart_by_sqlstate(pg: Cluster) -> None:
    scripts = ["select 1 / 0;", "select * from no_such_table;", "selec 1;", SELECT]
    for protocol in ("prepared", "extended", "simple"):
        with Run(config(pg.conninfo, *scripts, protocol=protocol)) as run:
            run.wait_for(lambda run: run.total["done"] > 50 and len(run.errors) == 3)
        run.assert_balanced()
        assert {code for code, _, _ in run.errors} == {"22012", "42P01", "42601"}
        assert sum(run.errors.values()) == run.total["failed"]
        messages = {r["sqlstate"]: r["message"] for i in run.intervals for r in i["errors"]}
        assert messages["22012"] == "division by zero"
        assert run.total["reconnects"] == 0


def test_a_failed_transaction_is_rolled_back_and_later_statements_not_sent(pg: Cluster) -> None:
    script = "begin;\nselect 1 / 0;\nselect 2;\nend;"
    with Run(config(pg.conninfo, script, SELECT)) as run:
        run.wait_for(lambda run: run.total["failed"] > 50 and run.total["done"] > 50)
    run.assert_balanced()
    assert set(run.errors) == {("22012", False, False)}
    rows = [r for i in run.intervals for r in i["statements"] if r["script"] == "s0"]
    done = [sum(r["done"] for r in rows if r["position"] == n) for n in range(4)]
    failed = [sum(r["failed"] for r in rows if r["position"] == n) for n in range(4)]
    assert done[0] == failed[1] == run.total["failed"]
    assert done[1:] == [0, 0, 0]
    assert failed[2:] == [0, 0]


@pytest.mark.parametrize("spoiled", ["failure", "lost connection", "pool"])
def test_exit_on_abort_ends_the_load_with_the_first_failure(pg: Cluster, spoiled: str) -> None:
    """Retries that succeed and expected errors are none."""
    keys = {"pool": {"max": 1, "max_wait_ms": 50}} if spoiled == "pool" else {}
    script = {
        "failure": "\\expect 42P01\nselect * from no_such_table;\nselect 1 / 0;",
        "lost connection": SELECT,
        "pool": "select pg_sleep(1);",
    }[spoiled]
    with Run(config(pg.conninfo, script, exit_on_abort=True, **keys)) as run:
        if spoiled == "lost connection":
            run.wait_for(lambda run: run.total["done"] > 50)
            terminate_clients(pg.conninfo, 4)
        run.wait_for(lambda run: run.load.state() == "stopped")
        fatal = run.load.fatal()
    run.assert_balanced()
    assert fatal is not None
    assert fatal["code"] == "aborted"
    said = {
        "failure": "script s0: 22012 division by zero",
        "lost connection": "57P01 terminating connection due to administrator command",
        "pool": "script s0: pool-timeout no connection of the pool became free in time",
    }[spoiled]
    assert fatal["message"].startswith("client ")
    assert fatal["message"].endswith(said)


def test_a_timer_is_not_that_of_the_connection_before(pg: Cluster) -> None:
    """Clients that connect anew take places of others, whose time to connect is over later."""
    keys: dict[str, Any] = {"connection": {"reconnect_every": 1}, "connect_timeout_ms": 3000}
    with Run(config(pg.conninfo, f"{SELECT}\n\\sleep 20 ms", **keys)) as run:
        deadline = time.monotonic() + 4.5
        run.wait_for(lambda run: run.total["done"] > 50 and time.monotonic() > deadline)
    run.assert_balanced()
    assert not run.errors


def test_expected_errors_are_no_failures_and_their_absence_is(pg: Cluster) -> None:
    scripts = [
        "\\expect 22012\nselect 1 / 0;\nselect 1;",
        "\\expect 22012\nselect 2;",
        "\\expect 22012\nselect * from no_such_table;",
    ]
    with Run(config(pg.conninfo, *scripts)) as run:
        run.wait_for(lambda run: len(run.errors) == 3 and run.total["done"] > 50)
    run.assert_balanced()
    assert set(run.errors) == {
        ("22012", True, False),
        ("expected-error-missing", False, False),
        ("42P01", False, False),
    }
    assert run.total["expected_errors"] == run.errors["22012", True, False] == run.total["done"]
    unexpected = sum(count for (_, expected, _), count in run.errors.items() if not expected)
    assert run.total["failed"] == unexpected


@pytest.mark.parametrize("end", ["commit", "end", "commit and chain"])
def test_a_commit_that_is_answered_with_rollback_is_a_failure(
    pg: Cluster, journal: str, end: str
) -> None:
    insert = f"insert into {journal} values (:client_id, :txn)"
    failing = f"begin;\n{insert};\n\\expect 22012\nselect 1 / 0;\n{end};\n"
    with Run(config(pg.conninfo, failing, transactions=20)) as run:
        run.wait_for(lambda run: run.total["done"] + run.total["failed"] == 80)
    run.assert_balanced()
    assert (run.total["done"], run.total["failed"]) == (0, run.total["intended"])
    assert set(run.errors) == {("22012", True, False), ("commit-rolled-back", False, False)}
    assert rows(pg, journal) == 0


@pytest.mark.parametrize("end", ["rollback to a;\ncommit;", "rollback;"])
def test_a_rollback_of_the_script_is_no_failure(pg: Cluster, journal: str, end: str) -> None:
    insert = f"insert into {journal} values (:client_id, :txn)"
    script = f"begin;\n{insert};\nsavepoint a;\n\\expect 22012\nselect 1 / 0;\n{end}\n"
    with Run(config(pg.conninfo, script, transactions=20)) as run:
        run.wait_for(lambda run: run.total["done"] + run.total["failed"] == 80)
    run.assert_balanced()
    assert (run.total["done"], run.total["failed"]) == (run.total["intended"], 0)
    assert rows(pg, journal) == (run.total["done"] if "commit" in end else 0)


@pytest.fixture
def journal(pg: Cluster) -> Iterator[str]:
    """A table of the clients' transactions."""
    with connect_plain(pg.conninfo) as conn:
        conn.execute("create table journal (client int, txn bigint, primary key (client, txn))")
        yield "journal"
        conn.execute("drop table journal")


def rows(pg: Cluster, table: str) -> int:
    with connect_plain(pg.conninfo) as conn:
        (count,) = conn.execute(f"select count(*) from {table}".encode()).fetchone() or (0,)
    return int(count)


def test_serialization_failures_are_tried_again_with_the_same_values(pg: Cluster) -> None:
    """Each transaction draws a number; tries of one transaction must draw the same one."""
    script = """
        \\set n random(1, 1000000000)
        \\set mine :n
        select nextval('engine_tries') as try \\gset
        insert into engine_tries_log select :client_id, :n;
        begin isolation level repeatable read;
        select count(*) from engine_counter;
        update engine_counter set value = value + 1;
        insert into engine_done values (:client_id, :n);
        end;
    """
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute(
            "drop table if exists engine_counter, engine_done, engine_tries_log;"
            "drop sequence if exists engine_tries; create sequence engine_tries;"
            "create table engine_counter (value int); insert into engine_counter values (0);"
            "create table engine_done (client int, n int);"
            "create table engine_tries_log (client int, n int)"
        )
        with Run(config(pg.conninfo, script, clients=6, max_tries=1000)) as run:
            run.wait_for(lambda run: run.total["retried"] > 20 and run.total["done"] > 20)
        run.assert_balanced()
        assert run.total["failed"] == 0
        assert set(run.errors) == {("40001", False, True)}
        assert run.errors["40001", False, True] == run.total["retried"]
        facts = connection.execute(
            "select (select value from engine_counter), (select count(*) from engine_done),"
            " (select count(*) from engine_tries_log),"
            " (select count(distinct (client, n)) from engine_tries_log)"
        ).fetchone()
        done, retried = run.total["done"], run.total["retried"]
        assert facts == (done, done, done + retried, done)
        connection.execute(
            "drop table engine_counter, engine_done, engine_tries_log; drop sequence engine_tries"
        )


def test_tries_have_a_limit(pg18: Cluster) -> None:
    script = "do $$ begin raise sqlstate '40001' using message = 'again'; end $$;"
    with Run(config(pg18.conninfo, script, max_tries=3)) as run:
        run.wait_for(lambda run: run.total["failed"] >= 20)
    run.assert_balanced()
    assert run.total["done"] == 0
    assert run.total["retried"] == 2 * run.total["failed"] + _half_tried(run)
    assert run.errors["40001", False, False] == run.total["failed"]


def _half_tried(run: Run) -> int:
    return run.errors["40001", False, True] - 2 * run.total["failed"]


def test_deadlocks_are_tried_again(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(18, deadlock_timeout="10ms")
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("create table pair (id int primary key, value int)")
        connection.execute("insert into pair values (1, 0), (2, 0)")
    script = """
        \\set first random(1, 2)
        begin;
        update pair set value = value + 1 where id = :first;
        select pg_sleep(0.002);
        update pair set value = value + 1 where id = 3 - :first;
        end;
    """
    with Run(config(cluster.conninfo, script, clients=4, max_tries=100)) as run:
        run.wait_for(lambda run: run.total["retried"] >= 3 and run.total["done"] >= 3)
    run.assert_balanced()
    assert run.total["failed"] == 0
    assert set(run.errors) == {("40P01", False, True)}
    with psycopg.connect(**cluster.conninfo.kwargs()) as connection:
        rows = connection.execute("select value from pair").fetchall()
    assert rows == [(run.total["done"],), (run.total["done"],)]


@pytest.mark.parametrize("pool", [None, {"max": 3}])
@pytest.mark.parametrize("think_ms", [0, 1])
def test_killed_connections_are_replaced_and_counted(
    pg: Cluster, pool: object, think_ms: int
) -> None:
    script = "begin;\nselect pg_sleep(0.002);\nend;"
    keys = {"clients": 6, "pool": pool, "threads": 2, "think_ms": think_ms}
    with Run(config(pg.conninfo, script, **keys)) as run:
        held = 6 if pool is None else 3
        run.wait_for(lambda run: run.total["connects"] == held)
        for turn in (1, 2, 3):
            run.wait_for_more("done", 20)
            terminate_clients(pg.conninfo, held)
            run.wait_for(lambda run, n=turn * held: run.total["reconnects"] == n)  # type: ignore[misc]
        run.wait_for_more("done", 20)
    run.assert_balanced()
    killed = 3 * held
    assert run.total["connects"] == held + killed
    assert run.total["cancelled"] == 0
    # A connection that is killed between two transactions costs none of them.
    lost = sum(count for (code, _, _), count in run.errors.items() if code != "connect-failed")
    assert run.total["failed"] <= killed
    assert lost == killed
    assert run.errors["57P01", False, False] >= killed - 2


def test_connections_killed_while_clients_think_cost_no_transaction(pg18: Cluster) -> None:
    for pool in (None, {"max": 2}):
        with Run(config(pg18.conninfo, SELECT, clients=2, think_ms=300, pool=pool)) as run:
            run.wait_for(lambda run: run.total["connects"] == 2 and run.total["done"] >= 2)
            terminate_clients(pg18.conninfo, 2)
            run.wait_for(lambda run: run.total["reconnects"] == 2)
            run.wait_for_more("done", 2)
        run.assert_balanced()
        assert run.total["failed"] == 0
        places = {
            (r["script"], r["statement"])
            for i in run.intervals
            for r in i["errors"]
            if r["sqlstate"] == "57P01"
        }
        assert places == {("", "")}


@pytest.mark.parametrize("pool", [None, {"max": 2}])
def test_a_restart_in_mid_run_is_survived(
    new_cluster: Callable[..., Cluster], pool: object
) -> None:
    cluster = new_cluster(18)
    held = 4 if pool is None else 2
    with Run(config(cluster.conninfo, SELECT, clients=4, pool=pool, threads=2)) as run:
        run.wait_for(lambda run: run.total["connects"] == held and run.total["done"] > 50)
        cluster.restart()
        run.wait_for(lambda run: run.total["reconnects"] == held)
        run.wait_for_more("done", 50)
    run.assert_balanced()
    assert run.load.fatal() is None
    assert run.total["failed"] <= held
    # The time without a server is in the responses of those who waited, from the intended time.
    assert run.histogram("wait").max > 10 * run.histogram("service").percentile(50)


def test_a_crash_in_mid_run_is_survived(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(18)
    with Run(config(cluster.conninfo, SELECT, clients=4)) as run:
        run.wait_for(lambda run: run.total["connects"] == 4 and run.total["done"] > 50)
        cluster.kill()
        time.sleep(0.2)
        cluster.start()
        run.wait_for(lambda run: run.total["reconnects"] == 4)
        run.wait_for_more("done", 50)
    run.assert_balanced()


def test_a_server_that_stays_away_ends_the_load(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(18)
    with Run(config(cluster.conninfo, SELECT, give_up_after_ms=300)) as run:
        run.wait_for_more("done", 10)
        cluster.stop()
        run.wait_for(lambda run: run.load.state() == "stopped")
    run.assert_balanced()
    fatal = run.load.fatal()
    assert fatal is not None
    assert fatal["code"] == "server-gone"
    # Each client with a transaction that was never sent, but one may have lost its session later.
    assert 0 < run.total["backlog"] <= 4


def test_an_absent_server_that_nobody_needs_is_no_reason_to_end(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster(18)
    keys = {"give_up_after_ms": 200, "pool": {"max": 2}}
    with Run(config(cluster.conninfo, SELECT, **keys)) as run:
        run.wait_for_more("done", 10)
        run.load.set_clients("g", 0)
        run.wait_for(lambda run: run.last["groups"][0]["clients"] == 0)
        cluster.stop()
        away_ns = run.load.end_interval(None)
        run.wait_for(lambda run: run.last["ended_ns"] > away_ns + 500_000_000)
        cluster.start()
        run.load.set_clients("g", 4)
        run.wait_for_more("done", 10)
    run.assert_balanced()
    assert run.load.fatal() is None
    assert run.total["failed"] == 0


def test_too_many_connections_are_counted_and_tried_again(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster(18, max_connections="8", superuser_reserved_connections="1")
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("create role plain login password 'plain'")
    keys = {"clients": 12, "backoff_ms_max": 100}
    load_config = config(cluster.conninfo, SELECT, **keys).replace(
        f'"user": "{cluster.conninfo.user}", "password": "{cluster.conninfo.password}"',
        '"user": "plain", "password": "plain"',
    )
    with Run(load_config) as run:
        run.wait_for(lambda run: run.errors["53300", False, False] >= 10)
        run.wait_for_more("done", 50)
        run.load.set_clients("g", 2)
        run.wait_for(lambda run: run.last["groups"][0]["clients"] == 2)
    run.assert_balanced()
    assert run.total["failed"] == 0
    assert {r["statement"] for i in run.intervals for r in i["errors"]} == {"connect"}


def test_prepared_statements_that_the_server_forgot_are_prepared_again(pg: Cluster) -> None:
    script = "select 1;\ndeallocate all;"
    with Run(config(pg.conninfo, script, SELECT, weights=(1, 20))) as run:
        run.wait_for(lambda run: run.errors["26000", False, False] >= 3)
        run.wait_for_more("done", 100)
    run.assert_balanced()
    assert set(run.errors) == {("26000", False, False)}


def test_a_statement_whose_table_changes_is_prepared_again(pg: Cluster) -> None:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists engine_shape")
        connection.execute("create table engine_shape (a int)")
        with Run(config(pg.conninfo, "select * from engine_shape;")) as run:
            run.wait_for_more("done", 20)
            connection.execute("alter table engine_shape add b int")
            run.wait_for(lambda run: run.errors["0A000", False, False] > 0)
            run.wait_for_more("done", 20)
        connection.execute("drop table engine_shape")
    run.assert_balanced()
    assert run.total["failed"] <= 4, "once per connection"


def test_a_transaction_left_open_is_a_failure(pg18: Cluster) -> None:
    with Run(config(pg18.conninfo, "begin;\nselect 1;", pool={"max": 2})) as run:
        run.wait_for(lambda run: run.total["failed"] >= 10)
    run.assert_balanced()
    assert set(run.errors) == {("transaction-left-open", False, False)}


def test_an_expression_without_a_value_fails_its_transaction(pg: Cluster) -> None:
    scripts = ["begin;\nselect 0 as x \\gset\n\\set y 1 / :x\nselect :y;\nend;", SELECT]
    with Run(config(pg.conninfo, *scripts)) as run:
        run.wait_for(lambda run: run.total["failed"] >= 10 and run.total["done"] >= 10)
    run.assert_balanced()
    assert set(run.errors) == {("script-error", False, False)}


COMMANDS_AT_FAULT = [
    ("select 0 as x \\gset\n\\set y 1 / \\\n :x", 2, "\\set y 1 / :x"),
    ("select 'a' as x \\gset\nselect 1;\n\\sleep :x  ms", 3, "\\sleep :x ms"),
    ("\\if 1 > 1\n\\elif 1 / 0 > 1\n\\endif\nselect 1;", 2, "\\elif 1 / 0 > 1"),
    ("\nselect g from generate_series(1, 2) g\n\\gset p_", 2,
     "select g from generate_series(1, 2) g \\gset p_"),
    ("select 1;\ninsert into t values (:rows)\n\\rows 3 1 / (:row - 1)", 2,
     "insert into t values (:rows) \\rows 3 1 / (:row - 1)"),
    ("select 1;\nbegin;\nselect 2;", 2, "begin"),
    ("\\startpipeline\nselect 1;\nbegin isolation level serializable;\nselect 2;\n\\endpipeline",
     3, "begin isolation level serializable"),
    ("\\startpipeline\nbegin;\nend;\n\\endpipeline\nselect 1 \\; begin;", 5,
     "select 1 ; begin"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "line", "statement"), COMMANDS_AT_FAULT)
def test_what_fails_in_a_script_is_shown_as_written(
    pg18: Cluster, script: str, line: int, statement: str
) -> None:
    """A meta-command with all that belongs to it; of a block that stays open, what opened it."""
    with Run(config(pg18.conninfo, script)) as run:
        run.wait_for(lambda run: run.total["failed"] >= 10)
    rows = [row for interval in run.intervals for row in interval["errors"]]
    assert {(row["line"], row["statement"]) for row in rows} == {(line, statement)}
    assert all(row["client"] is not None for row in rows)


def test_copy_from_stdin_fails_and_the_connection_lives(pg: Cluster) -> None:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists engine_copy")
        connection.execute("create table engine_copy (a int)")
        for protocol in ("prepared", "simple"):
            scripts = ["copy engine_copy from stdin;", "copy engine_copy to stdout;", SELECT]
            with Run(config(pg.conninfo, *scripts, protocol=protocol)) as run:
                run.wait_for(lambda run: run.total["failed"] >= 10 and run.total["done"] >= 10)
            run.assert_balanced()
            assert set(run.errors) == {("57014", False, False)}
            assert run.total["reconnects"] == 0
        connection.execute("drop table engine_copy")


def test_notices_and_notifications_are_put_up_with(pg: Cluster) -> None:
    script = """
        listen engine_channel;
        do $$ begin for i in 1..50 loop raise notice 'n %', i; end loop; end $$;
        notify engine_channel, 'x';
        select repeat('x', 300000);
        select generate_series(1, 1000);
    """
    for protocol in ("prepared", "simple"):
        with Run(config(pg.conninfo, script, protocol=protocol)) as run:
            run.wait_for_more("done", 10)
        run.assert_balanced()
        assert not run.errors
