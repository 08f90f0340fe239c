"""Pools and connection policies on real servers, as the server sees them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config

from patience import wait_until
from pgdyno._engine import EngineError, Load, ScriptError
from pgdyno.server import Cluster

pytestmark = pytest.mark.server

SELECT = "select 1;"


def arrival(rate: float) -> dict[str, Any]:
    segment = {"duration_ms": 1000, "rate_from": rate, "rate_to": rate}
    profile = {"kind": "segments", "segments": [segment]}
    return {"process": "constant", "when_busy": "queue", "profile": profile}


class Backends:
    """What the server says of the connections of one load."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = f"pools {time.monotonic_ns()}"

    def config(self, *scripts: str, **keys: Any) -> str:
        load = json.loads(config(self.cluster.conninfo, *scripts, **keys))
        load["target"]["application_name"] = self.name
        return json.dumps(load)

    def query(self, what: str, where: str = "true") -> list[Any]:
        with psycopg.connect(**self.cluster.conninfo.kwargs(), autocommit=True) as connection:
            rows = connection.execute(
                f"select {what} from pg_stat_activity where application_name = %s and {where}",
                (self.name,),
            ).fetchall()
        return [value for (value,) in rows]

    def wait_for(self, count: int, where: str = "true") -> None:
        wait_until(
            lambda: len(self.query("state", where)) == count,
            lambda: f"{count}, not {len(self.query('state', where))}",
        )


def test_a_pool_keeps_as_many_idle_as_it_must(pg: Cluster) -> None:
    backends = Backends(pg)
    load = backends.config(SELECT, clients=0, threads=2, pool={"max": 5, "min_idle": 3})
    with Run(load) as run:
        run.wait_for(lambda run: run.total["connects"] == 3)
        (killed, *_) = backends.query("pid")
        assert backends.query("pg_terminate_backend(pid)", f"pid = {killed}") == [True]
        backends.wait_for(3, f"pid <> {killed}")
        run.wait_for(lambda run: run.total["reconnects"] == 1)
        run.load.set_clients("g", 2)
        run.wait_for_more("done", 20)
        backends.wait_for(5)
        run.load.set_pool_max("g", 2)
        backends.wait_for(2)
    run.assert_balanced()
    assert run.total["failed"] == 0
    assert run.total["connects"] == 6


def test_instances_share_no_connection(pg18: Cluster) -> None:
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("drop table if exists used; create table used (client int, pid int)")
    backends = Backends(pg18)
    script = "insert into used values (:client_id, pg_backend_pid());"
    load = backends.config(script, clients=6, threads=2, instances=3, pool={"max": 1})
    with Run(load) as run:
        run.wait_for_more("done", 200)
        backends.wait_for(3)
        run.load.set_pool_max("g", 2)
        backends.wait_for(6)
        run.load.set_pool_max("g", None)
        run.wait_for_more("done", 200)
        run.load.set_pool_max("g", 1)
        backends.wait_for(3)
        run.wait_for_more("done", 200)
    run.assert_balanced()
    assert run.total["failed"] == 0
    used = "select count(distinct client % 3), count(distinct client) from used group by pid"
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        rows = connection.execute(used.encode()).fetchall()
        connection.execute("drop table used")
    assert {instances for instances, _ in rows} == {1}
    assert max(clients for _, clients in rows) == 2


def test_idle_connections_go_down_to_what_is_kept(pg18: Cluster) -> None:
    backends = Backends(pg18)
    pool = {"max": 4, "min_idle": 1, "idle_timeout_ms": 100}
    load = backends.config("select pg_sleep(0.01);", clients=8, threads=2, pool=pool)
    with Run(load) as run:
        run.wait_for_more("done", 20)
        backends.wait_for(4)
        run.load.set_clients("g", 0)
        backends.wait_for(1)
        run.load.set_clients("g", 8)
        run.wait_for_more("done", 20)
        backends.wait_for(4)
    run.assert_balanced()
    assert run.total["failed"] == run.total["reconnects"] == 0


def test_connections_are_replaced_when_they_are_old(pg18: Cluster) -> None:
    backends = Backends(pg18)
    pool = {"max": 2, "min_idle": 2, "max_lifetime_ms": 150}
    with Run(backends.config(SELECT, clients=3, threads=2, pool=pool)) as run:
        run.wait_for(lambda run: run.total["connects"] >= 8)
        run.load.set_clients("g", 0)
        before = run.total["connects"]
        # Also those that nobody uses.
        run.wait_for(lambda run: run.total["connects"] >= before + 4)
        # A backend whose connection was replaced may take a moment to end.
        backends.wait_for(2)
        assert run.load.connections() <= 2
    run.assert_balanced()
    assert run.total["failed"] == run.total["reconnects"] == 0
    assert not run.errors


def test_a_connection_that_is_no_longer_good_costs_no_transaction(pg: Cluster) -> None:
    backends = Backends(pg)
    pool = {"max": 2, "validation": {"query": "select 1/0", "after_idle_ms": 0}}
    load = backends.config(SELECT, clients=2, threads=2, pool=pool, arrival=arrival(100))
    with Run(load) as run:
        run.wait_for_more("reconnects", 10)
    run.assert_balanced()
    assert run.total["failed"] == 0
    # Every one that was idle was found bad and replaced, and its client waited for the other.
    assert run.errors["22012", False, False] >= 10
    assert {row["script"] for i in run.intervals for row in i["errors"]} == {""}
    assert run.histogram("pool_wait").max > 0


def test_idle_connections_that_are_ended_cost_no_transaction(pg18: Cluster) -> None:
    backends = Backends(pg18)
    pool = {"max": 3, "min_idle": 3, "validation": {"after_idle_ms": 0}}
    load = backends.config(SELECT, clients=2, threads=2, pool=pool, arrival=arrival(50))
    with Run(load) as run:
        for _ in range(3):
            run.wait_for_more("done", 5)
            # What is under way when its connection is ended fails, whatever was asked before.
            run.load.set_rate("g", 0)
            run.wait_until_known()
            run.wait_for(lambda run: run.total["backlog"] == 0)
            backends.query("pg_terminate_backend(pid, 5000)", "state = 'idle'")
            run.load.set_rate("g", 1)
        run.wait_for_more("done", 10)
    run.assert_balanced()
    assert run.total["failed"] == 0
    assert run.total["reconnects"] >= 3


@pytest.mark.parametrize("rate", [None, 200], ids=["closed", "open"])
@pytest.mark.parametrize("pool", [None, {"max": 2}], ids=["own", "pool"])
def test_a_connection_for_each_transaction(
    pg18: Cluster, rate: int | None, pool: dict[str, int] | None
) -> None:
    load = config(
        pg18.conninfo, SELECT, clients=3, threads=2, pool=pool,
        arrival=arrival(rate) if rate else None, connection={"reconnect_every": 1},
    )  # fmt: skip
    with Run(load) as run:
        run.wait_for_more("done", 50)
    run.assert_balanced()
    assert run.total["failed"] == run.total["reconnects"] == 0
    assert run.total["done"] <= run.total["connects"] <= run.total["done"] + 6
    waited = run.histogram("pool_wait" if pool else "connect")
    # Without a pool each transaction waits for a connection of its own.
    assert waited.max > 0
    assert pool or waited.min > 0


def test_a_connection_for_some_transactions(pg18: Cluster) -> None:
    keys = {"connection": {"reconnect_every": 5}}
    with Run(config(pg18.conninfo, SELECT, clients=3, threads=2, **keys)) as run:
        run.wait_for_more("done", 100)
    run.assert_balanced()
    done = run.total["done"]
    assert done / 5 <= run.total["connects"] <= done / 5 + 6


def test_after_a_failure_connections_come_back_a_few_at_a_time(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster()
    for slow in (True, False):
        load = config(
            cluster.conninfo, SELECT, clients=40, threads=2, backoff_ms_min=20, backoff_ms_max=50,
            connection={"slow_start": slow},
        )  # fmt: skip
        with Run(load) as run:
            run.wait_for(lambda run: run.total["connects"] == 40)
            down = time.monotonic()
            cluster.stop("immediate")
            # All of the forty try, or one at a time, which makes a pause of 10 ms at least.
            least = 8 if slow else 80
            run.wait_for(lambda run, least=least: run.total["connect_failures"] >= least)
            cluster.start()
            alone = 40 + (time.monotonic() - down) / 0.01
            run.wait_for(lambda run: run.total["reconnects"] >= 40)
            run.wait_for_more("done", 100)
        run.assert_balanced()
        assert not slow or run.total["connect_failures"] <= alone


@pytest.mark.parametrize("scripts", [(), (SELECT,)], ids=["none", "one"])
def test_idle_clients_connect_and_stay(pg18: Cluster, scripts: tuple[str, ...]) -> None:
    backends = Backends(pg18)
    with Run(backends.config(*scripts, clients=5, threads=2, idle=True)) as run:
        run.wait_for(lambda run: run.total["connects"] == 5)
        backends.wait_for(5, "state = 'idle' and query = ''")
        assert all(backends.query("pg_terminate_backend(pid)"))
        run.wait_for(lambda run: run.total["reconnects"] == 5)
        run.load.set_clients("g", 2)
        backends.wait_for(2)
        with pytest.raises(EngineError, match="is idle"):
            run.load.set_pool_max("g", 3)
    run.assert_balanced()
    assert run.total["intended"] == run.total["sent"] == 0
    backends.wait_for(0)


@pytest.mark.parametrize("script", [SELECT, "begin; select 1; commit;"], ids=["wrapped", "block"])
def test_transactions_are_held_open(pg: Cluster, script: str) -> None:
    backends = Backends(pg)
    with Run(backends.config(script, clients=2, hold_open_ms=100)) as run:
        backends.wait_for(2, "state = 'idle in transaction'")
        run.wait_for_more("done", 2)
    run.assert_balanced()
    assert run.total["failed"] == 0
    assert run.histogram("service").min >= 99_000_000
    rows = {row["statement"] for i in run.intervals for row in i["statements"]}
    assert rows == {"begin", "select 1", "commit"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pool": {"max": 2, "min_idle": 3}}, r"pool\.min_idle is 3.*between 0 and 2"),
        ({"pool": {"max": 2, "max_lifetime_ms": 0}}, r"pool\.max_lifetime_ms is 0"),
        ({"pool": {"max": 2, "idle_timeout_ms": 0}}, r"pool\.idle_timeout_ms is 0"),
        ({"pool": {"max": 2, "validation": {"query": " "}}}, "is not a query"),
        ({"connection": {"reconnect_every": 0}}, r"connection\.reconnect_every is 0"),
        ({"idle": True, "pool": {"max": 2}}, "a pool cannot be used"),
        ({"idle": True, "arrival": arrival(1)}, "an arrival cannot be used"),
        ({"hold_open_ms": 10**12}, "hold_open_ms is"),
    ],
)
def test_what_makes_no_pool_is_refused_in_words(
    pg18: Cluster, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        Load(config(pg18.conninfo, SELECT, **keys))


def test_what_cannot_be_held_open_is_refused_with_its_place(pg18: Cluster) -> None:
    script = "select 1;\nbegin;\nselect 2;"
    with pytest.raises(ScriptError, match="before a COMMIT") as refusal:
        Load(config(pg18.conninfo, script, hold_open_ms=5))
    assert (refusal.value.file, refusal.value.line) == ("s0", 2)
