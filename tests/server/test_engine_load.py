"""Loads on real servers: the ledger, clients over time, pools, statements, protocols."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from engine_runs import Run, config
from inline_snapshot import snapshot

from patience import wait_until
from pgdyno._engine import EngineError, Histogram, Load
from pgdyno.server import Cluster

pytestmark = [pytest.mark.server, pytest.mark.alike]

SELECT = "select 1;"
SLOW = "select pg_sleep(0.01);"


@pytest.mark.parametrize("protocol", ["prepared", "extended", "simple"])
def test_every_transaction_is_accounted_for(pg: Cluster, protocol: str) -> None:
    with Run(config(pg.conninfo, SELECT, protocol=protocol, threads=2)) as run:
        run.wait_for(lambda run: run.total["connects"] == 4)
        run.wait_for_more("done", 100)
    run.assert_balanced()
    assert run.total["failed"] == run.total["backlog"] == run.total["cancelled"] == 0
    assert run.total["sent"] == run.total["done"]
    assert run.total["connects"] == 4
    assert not run.errors


def test_intervals_join_without_gap_and_carry_the_tag_of_their_cut(pg: Cluster) -> None:
    with Run(config(pg.conninfo, SELECT)) as run:
        cuts = [(run.load.end_interval(tag), tag) for tag in (7, 8, None)]
    edges = [interval["started_ns"] for interval in run.intervals]
    assert edges[0] == run.started_ns
    assert edges[1:] == [interval["ended_ns"] for interval in run.intervals[:-1]]
    for at_ns, tag in cuts:
        (begun,) = [i for i in run.intervals if i["started_ns"] == at_ns]
        assert begun["tag"] == tag
    assert run.intervals[0]["tag"] is None
    assert run.load.poll() == []


def test_an_interval_ends_each_second_by_itself(pg18: Cluster) -> None:
    with Run(config(pg18.conninfo, SLOW)) as run:

        def two_are_over() -> bool:
            run.poll()
            return len(run.intervals) >= 2

        wait_until(two_are_over, "two intervals")
    first = run.intervals[0]
    assert first["ended_ns"] - first["started_ns"] >= 1_000_000_000


def test_values_reach_the_server_in_every_protocol(pg: Cluster) -> None:
    script = """
        \\set n random(1, 1000000)
        insert into engine_values values (:client_id, :n, :word);
    """
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        for protocol in ("prepared", "extended", "simple"):
            connection.execute("drop table if exists engine_values")
            connection.execute("create table engine_values (client int, n int, word text)")
            word = "'so'" if protocol == "simple" else "so"
            keys = {"protocol": protocol, "variables": {"word": word}}
            with Run(config(pg.conninfo, script, **keys)) as run:
                run.wait_for(lambda run: run.total["connects"] == 4)
                run.wait_for_more("done", 20)
            rows = connection.execute(
                "select count(*), count(distinct client), min(n) > 0, max(n) <= 1000000,"
                " bool_and(word = 'so') from engine_values"
            ).fetchone()
            assert rows == (run.total["done"], 4, True, True, True)
        connection.execute("drop table engine_values")


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
def test_transactions_are_kept_as_they_were_sent(pg18: Cluster, protocol: str) -> None:
    script = "\\set n random(7, 7)\nselect :n + 1 as next \\gset got_\nselect :got_next, ':n';\n"
    with Run(config(pg18.conninfo, script, protocol=protocol)) as run:
        run.wait_for_more("done", 3000)
    kept = run.load.samples()
    assert len(kept) == 8
    assert {(each["group"], each["script"]) for each in kept} == {("g", "s0")}
    first, second = kept[-1]["statements"]
    assert (first["position"], first["captures"], second["captures"]) == (0, "got_", None)
    assert first["text"] == "select 7 + 1 as next"
    assert first["parameterized"] == "select $1 + 1 as next"
    assert first["parameters"] == [("n", "7")]
    assert (second["text"], second["parameterized"]) == ("select 8, '7'", None)


def test_the_mix_follows_the_weights(pg18: Cluster) -> None:
    with Run(config(pg18.conninfo, SELECT, "select 2;", "select 3;", weights=(3, 1, 0))) as run:
        run.wait_for_more("done", 2000)
    done = [sum(i["scripts"][n]["done"] for i in run.intervals) for n in range(3)]
    assert done[2] == 0
    assert 0.65 < done[0] / (done[0] + done[1]) < 0.85
    run.assert_balanced()


def test_a_ramp_reaches_its_clients_and_a_step_takes_them_away(pg18: Cluster) -> None:
    schedule = [
        {"at_ms": 0, "clients": 12, "ramp_ms": 800},
        # A busy machine takes its time to connect them.
        {"at_ms": 3000, "clients": 3},
    ]
    with Run(config(pg18.conninfo, SLOW, clients=12, schedule=schedule, threads=2)) as run:
        run.wait_for(
            lambda run: (12, 12) in _clients_seen(run) and _clients_seen(run)[-1] == (3, 3)
        )
    seen = [clients for clients, _ in _clients_seen(run)]
    assert any(0 < clients < 12 for clients in seen[: seen.index(12)])
    run.assert_balanced()
    assert run.total["failed"] == run.total["cancelled"] == 0


def _clients_seen(run: Run) -> list[tuple[int, int]]:
    """Clients and connections at the end of each interval."""
    rows = [row for interval in run.intervals for row in interval["groups"]]
    return [(row["clients"], row["connections"]) for row in rows]


def test_clients_change_live_without_cutting_a_transaction(pg18: Cluster) -> None:
    with Run(config(pg18.conninfo, SLOW, clients=2)) as run:
        for clients in (6, 1, 5, 0, 3):
            run.load.set_clients("g", clients)
            run.wait_for(lambda run, n=clients: _settled(run, n))  # type: ignore[misc]
        run.wait_for_more("done", 5)
    run.assert_balanced()
    assert run.total["failed"] == run.total["cancelled"] == 0


def _settled(run: Run, clients: int) -> bool:
    if not run.intervals:
        return False
    row = run.last["groups"][0]
    return row["clients"] == row["connections"] == clients


def test_waiting_for_a_pooled_connection_is_told_apart(pg: Cluster) -> None:
    pool = {"max": 2}
    with Run(config(pg.conninfo, SLOW, clients=8, pool=pool, threads=2)) as run:
        run.wait_for_more("done", 60)
    run.assert_balanced()
    assert run.total["connects"] == 2
    assert run.last["groups"][0]["connections"] <= 2
    # Eight clients take turns on two connections: each waits for about three others.
    wait, pool_wait, service = (run.histogram(k) for k in ("wait", "pool_wait", "service"))
    assert pool_wait.mean > 2 * service.mean
    assert pool_wait.mean <= wait.mean * 1.02
    assert run.total["backlog"] > 0, "who waits when the load stops is backlog"
    assert run.total["cancelled"] == 0


def test_clients_of_a_pool_take_turns(pg18: Cluster) -> None:
    # So long that a busy machine, on which one connection stalls, gives others few turns more.
    script = "insert into engine_turns select :client_id from pg_sleep(0.01);"
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists engine_turns")
        connection.execute("create table engine_turns (client int)")
        with Run(config(pg18.conninfo, script, clients=7, pool={"max": 2}, threads=2)) as run:
            run.wait_for_more("done", 200)
        counts = [
            count
            for (count,) in connection.execute(
                "select count(*) from engine_turns group by client order by 1"
            )
        ]
        connection.execute("drop table engine_turns")
    assert len(counts) == 7
    assert counts[-1] - counts[0] <= 0.2 * counts[-1] + 3


@pytest.mark.parametrize("threads", [1, 2])
def test_a_pool_changes_live(pg18: Cluster, threads: int) -> None:
    keys = {"clients": 8, "pool": {"max": 2}, "threads": threads}
    with Run(config(pg18.conninfo, SLOW, **keys)) as run:
        for most in (6, 1, None, 3, None, 2):
            run.load.set_pool_max("g", most)
            want = 8 if most is None else most
            run.wait_for(lambda run, n=want: _connections(run) == n)  # type: ignore[misc]
            run.wait_for_more("done", 20)
    run.assert_balanced()
    assert run.total["failed"] == run.total["cancelled"] == run.total["reconnects"] == 0


def _connections(run: Run) -> int:
    return run.last["groups"][0]["connections"] if run.intervals else 0


def test_a_wait_beyond_the_pools_patience_fails(pg18: Cluster) -> None:
    keys = {"clients": 4, "pool": {"max": 1, "max_wait_ms": 50}, "threads": 2}
    with Run(config(pg18.conninfo, "select pg_sleep(0.2);", **keys)) as run:
        run.wait_for(lambda run: run.errors["pool-timeout", False, False] >= 6)
    run.assert_balanced()
    assert run.total["failed"] == run.errors["pool-timeout", False, False]


def test_statements_are_counted_by_position(pg: Cluster) -> None:
    script = "begin;\nselect pg_sleep(0.05);\nselect\n  2;\nend;"
    with Run(config(pg.conninfo, script)) as run:
        run.wait_for_more("done", 20)
    rows = [row for interval in run.intervals for row in interval["statements"]]
    assert {(r["position"], r["statement"]) for r in rows} == {
        (0, "begin"),
        (1, "select pg_sleep(0.05)"),
        (2, "select 2"),
        (3, "end"),
    }
    for position in range(4):
        service = Histogram()
        for row in rows:
            if row["position"] == position:
                service.add_encoded(row["service"])
        assert service.count == run.total["done"]
        assert (service.min > 49_000_000) == (position == 1)


def test_clients_think_between_transactions_and_not_within(pg18: Cluster) -> None:
    for pool in (None, {"max": 2}):
        with Run(config(pg18.conninfo, SELECT, think_ms=150, pool=pool, threads=2)) as run:
            run.wait_for_more("done", 9)
        run.assert_balanced()
        elapsed_s = (run.last["ended_ns"] - run.started_ns) / 1e9
        assert run.total["done"] <= 4 * (elapsed_s / 0.15 + 1)
        # Thinking is no part of a response.
        assert run.histogram("response").percentile(50) < 150_000_000


def test_sleep_gset_and_conditions_work_in_a_script(pg: Cluster) -> None:
    script = """
        select 41 + 1 as answer, null as nothing \\gset my_
        \\sleep 5 ms
        \\if :my_answer = 42
        select 1 / (:my_answer - 41);
        \\else
        select 1 / 0;
        \\endif
    """
    for protocol in ("prepared", "simple"):
        with Run(config(pg.conninfo, script, protocol=protocol)) as run:
            run.wait_for_more("done", 10)
        run.assert_balanced()
        assert not run.errors
        assert run.histogram("service").min > 4_900_000


AT_A_RATE = {
    "process": "constant",
    "when_busy": "queue",
    "profile": {
        "kind": "segments",
        "segments": [{"duration_ms": 3_600_000, "rate_from": 100, "rate_to": 100}],
    },
}


@pytest.mark.parametrize(
    "script", ["\\sleep 5 ms\nselect 1;", "\\set x 1\n\\sleep 5 ms\nselect 1;"]
)
@pytest.mark.parametrize("keys", [{}, {"arrival": AT_A_RATE}, {"pool": {"max": 2}}])
def test_a_pause_at_the_start_is_part_of_the_service(
    pg18: Cluster, script: str, keys: dict[str, Any]
) -> None:
    """It is no lag of the client."""
    with Run(config(pg18.conninfo, script, **keys)) as run:
        run.wait_for_more("done", 10)
    run.assert_balanced()
    assert run.histogram("service").min > 4_900_000
    assert run.total["sent"] >= run.total["done"]


def test_gset_wants_exactly_one_row(pg: Cluster) -> None:
    scripts = [
        "select 1 as x where false \\gset",
        "select generate_series(1, 2) as x \\gset",
        "select 1 as y \\gset\nselect :y;",
    ]
    with Run(config(pg.conninfo, *scripts)) as run:
        run.wait_for_more("done", 20)
    run.assert_balanced()
    by_script = {
        name: sum(r["failed"] for i in run.intervals for r in i["scripts"] if r["script"] == name)
        for name in ("s0", "s1", "s2")
    }
    assert by_script["s0"] > 0
    assert by_script["s1"] > 0
    assert by_script["s2"] == 0
    assert set(run.errors) == {("gset-rows", False, False)}


def test_a_transaction_that_sends_nothing_starves_nobody(pg18: Cluster) -> None:
    nothing = "\\if false\nselect 1;\n\\endif"
    with Run(config(pg18.conninfo, nothing, SELECT, clients=6)) as run:
        run.wait_for(lambda run: all(_done(run, name) > 50 for name in ("s0", "s1")))
    run.assert_balanced()
    assert run.total["failed"] == 0


def _done(run: Run, script: str) -> int:
    return sum(r["done"] for i in run.intervals for r in i["scripts"] if r["script"] == script)


def test_the_generator_audits_itself(pg18: Cluster) -> None:
    with Run(config(pg18.conninfo, SELECT, threads=2)) as run:
        run.wait_for_more("done", 500)
    threads = [row for interval in run.intervals for row in interval["threads"]]
    assert {row["thread"] for row in threads} == {0, 1}
    assert sum(row["cpu_user_us"] + row["cpu_system_us"] for row in threads) > 0
    assert max(row["loop_stall_us_max"] for row in threads) > 0
    late = Histogram()
    for row in threads:
        late.add_encoded(row["send_late"])
    assert late.count == run.total["sent"]


def test_what_is_in_flight_at_the_end_is_cancelled_on_the_server_too(pg: Cluster) -> None:
    with Run(config(pg.conninfo, "select pg_sleep(60);"), drain_ms=50) as run:
        run.wait_for(lambda run: run.total["sent"] == 4)
    run.assert_balanced()
    assert run.total["cancelled"] == 4
    query = (
        "select count(*) from pg_stat_activity"
        " where application_name = 'pgdyno' and backend_type = 'client backend'"
    )
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        wait_until(lambda: connection.execute(query).fetchone() == (0,), "no session is left")


def test_steering_a_load_that_is_not_there_is_refused(pg18: Cluster) -> None:
    load = Load(config(pg18.conninfo, SELECT))
    assert load.state() == "new"
    with pytest.raises(EngineError) as caught:
        load.set_clients("g", 1)
    assert caught.value.code == "not-started"
    load.start()
    with pytest.raises(EngineError) as caught:
        load.start()
    assert caught.value.code == "already-started"
    with pytest.raises(EngineError) as caught:
        load.set_pool_max("h", 1)
    assert caught.value.code == "group-unknown"
    assert caught.value.hint == snapshot("the load has g")
    with pytest.raises(EngineError):
        load.set_pool_max("g", 0)
    load.stop(1000)
    load.stop(1000)
    assert load.state() == "stopped"


def test_clients_end_after_their_transactions(pg18: Cluster) -> None:
    table = "create temp table if not exists seen (txn int);\ninsert into seen values (:txn);\n"
    check = (
        "\\set one 1\nselect 1 / (case when count(*) = :txn::int + 1 then 1 else 0 end) from seen;"
    )
    for pool in (None, {"max": 1}):
        # In a pool one connection's table has the numbers of all clients.
        script = SELECT if pool else table + check
        load = config(pg18.conninfo, script, clients=3, transactions=7, pool=pool, threads=2)
        with Run(load) as run:
            run.wait_for(lambda run: run.load.state() == "stopped")
        run.assert_balanced()
        assert (run.total["done"], run.total["intended"]) == (21, 21), run.errors
        assert run.total["backlog"] == 0


def test_a_retry_keeps_the_transactions_number_and_variables(pg: Cluster) -> None:
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists numbered")
        connection.execute("create table numbered (client int, txn int, n int, r int)")
        connection.execute("insert into numbered values (-1, -1, 0, 0)")
        script = """
\\set n :n + 1
\\set r random(1, 1000000)
begin isolation level serializable;
select sum(n) from numbered where client = -1;
update numbered set n = n + 1 where client = -1;
insert into numbered values (:client_id, :txn, :n, :r);
end;
"""
        keys = {"transactions": 40, "variables": {"n": "0"}, "max_tries": 10000, "seed": 5}
        with Run(config(pg.conninfo, script, **keys)) as run:
            run.wait_for(lambda run: run.load.state() == "stopped")
        assert run.total["retried"] > 0
        query = "select client, txn, n from numbered where client >= 0 order by client, txn"
        wanted = [(client, txn, txn + 1) for client in range(4) for txn in range(40)]
        assert connection.execute(query).fetchall() == wanted
        connection.execute("drop table numbered")


@pytest.mark.parametrize("pipelined", [False, True], ids=["statement", "pipeline"])
def test_clients_that_wait_for_an_answer_are_counted(pg18: Cluster, pipelined: bool) -> None:
    script = "select pg_advisory_lock_shared(:client_id);\nselect pg_advisory_unlock_all();\n"
    if pipelined:
        script = f"\\startpipeline\n{script}\\endpipeline\n"
    with (
        psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as other,
        Run(config(pg18.conninfo, script)) as run,
    ):
        run.wait_for_more("done", 10)
        other.execute("select pg_advisory_lock(0)")
        run.wait_for(lambda run: bool(run.intervals) and run.group["unanswered"] == 1)
        assert run.group["unanswered_us_max"] >= 2_000_000
        other.execute("select pg_advisory_unlock(0)")
        run.wait_for(lambda run: run.group["unanswered"] == 0)
        assert run.group["unanswered_us_max"] == 0
    run.assert_balanced()
