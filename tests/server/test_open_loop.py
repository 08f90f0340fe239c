"""Open loop on real servers: transactions are due by a rate, whatever became of the ones before."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config

from patience import wait_until
from pgdyno._engine import EngineError, Histogram, Load
from pgdyno.server import Cluster

pytestmark = pytest.mark.server

SELECT = "select 1;"
HOUR_MS = 3_600_000


def steady(rate: float, process: str = "constant", **keys: Any) -> dict[str, Any]:
    return segments([(HOUR_MS, rate, rate)], process=process, **keys)


def segments(
    parts: list[tuple[int, float, float]], repeat: bool = False, **keys: Any
) -> dict[str, Any]:
    names = ("duration_ms", "rate_from", "rate_to")
    profile = {
        "kind": "segments",
        "segments": [dict(zip(names, part, strict=True)) for part in parts],
        "repeat": repeat,
    }
    return {"process": "constant", "when_busy": "queue", "profile": profile} | keys


@pytest.mark.parametrize("reconnect_every", [None, 1])
def test_a_number_of_transactions_bounds_what_is_intended(
    pg18: Cluster, reconnect_every: int | None
) -> None:
    """The clients share them: those that come too late for any are skipped, and count."""
    keys: dict[str, Any] = {"connection": {"reconnect_every": reconnect_every}, "threads": 2}
    keys |= {"latency_limit_us": 1000, "transactions": 10, "clients": 3}
    load = config(pg18.conninfo, SELECT, arrival=steady(100_000), **keys)
    with Run(load) as run:
        run.wait_for(lambda run: run.load.state() == "stopped")
    run.assert_balanced()
    assert run.total["intended"] == 30
    assert run.total["done"] + run.total["skipped"] == 30
    assert run.total["backlog"] == 0


def seconds(run: Run) -> float:
    return (run.last["ended_ns"] - run.started_ns) / 1e9


def assert_held(run: Run, least: float, most: float) -> None:
    """As many became due as the schedule says, and every one of them was done or is queued."""
    run.assert_balanced()
    assert least <= run.total["intended"] <= most
    assert run.total["done"] + run.total["backlog"] == run.total["intended"]
    assert run.total["done"] > 0


def since_start(run: Run) -> float:
    """Seconds. Asked before a load is told to stop and after it has, they are the bounds between
    which it did, however long either takes."""
    return (time.monotonic_ns() - run.started_ns) / 1e9


def work_off(run: Run) -> None:
    """Have no more come due, of which a slow machine may do fewer, and wait until all are done."""
    run.load.set_rate("g", 0)
    run.wait_until_known()
    run.wait_for(lambda run: run.total["backlog"] == 0)


@pytest.mark.parametrize("pool", [None, {"max": 2}], ids=["own", "pool"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_constant_rate_is_held(pg: Cluster, pool: dict[str, int] | None, threads: int) -> None:
    load = config(pg.conninfo, SELECT, arrival=steady(400), pool=pool, threads=threads)
    with Run(load) as run:
        run.wait_for(lambda run: run.total["intended"] >= 300)
        before = since_start(run)
    assert_held(run, 400 * before - 1, 400 * since_start(run) + 1)
    assert sum(row["send_late"] != b"" for i in run.intervals for row in i["threads"]) > 0


def test_poisson_arrivals_on_several_threads_follow_the_rate_and_the_weights(pg18: Cluster) -> None:
    load = config(
        pg18.conninfo, SELECT, "select 2;", weights=(3, 1), clients=8, threads=3,
        arrival=steady(2000, "poisson"),
    )  # fmt: skip
    with Run(load) as run:
        run.wait_for(lambda run: run.total["intended"] >= 2000)
        before = since_start(run)
    least, most = 2000 * before, 2000 * since_start(run)
    assert_held(run, least - 6 * least**0.5, most + 6 * most**0.5)
    rows = [sum(i["scripts"][n]["intended"] for i in run.intervals) for n in (0, 1)]
    assert abs(rows[0] / sum(rows) - 0.75) < 0.06


def test_what_clients_cannot_take_queues_up_and_is_the_backlog(pg18: Cluster) -> None:
    load = config(pg18.conninfo, "select pg_sleep(0.05);", clients=2, arrival=steady(1000))
    with Run(load) as run:
        run.wait_for(lambda run: run.total["done"] >= 20)
    run.assert_balanced()
    assert run.total["skipped"] == run.total["failed"] == 0
    assert run.total["backlog"] == run.total["intended"] - run.total["done"] > 300
    # The queue is served first come first served, so waits grow: late ones beyond 200 ms.
    assert run.histogram("wait").max > 200_000_000


@pytest.mark.parametrize(
    "busy", [{"when_busy": "skip"}, {"queue_max": 5}], ids=["skip", "queue_max"]
)
def test_what_finds_no_room_is_skipped_and_counted(pg18: Cluster, busy: dict[str, Any]) -> None:
    load = config(pg18.conninfo, "select pg_sleep(0.05);", clients=2, arrival=steady(1000, **busy))
    with Run(load) as run:
        run.wait_for(lambda run: run.total["done"] >= 20)
    run.assert_balanced()
    room = busy.get("queue_max", 0)
    assert run.total["skipped"] > 300
    # Each client may have one that it has taken and not begun, also when the load ends.
    assert run.total["backlog"] <= room + 2
    assert max(row["backlog"] for i in run.intervals for row in i["scripts"]) <= room + 2
    if not room:
        # Whoever is not skipped finds a client: only its first connection may keep it waiting, and
        # a thread of the load that gets no core.
        late = Histogram()
        for interval in run.intervals:
            for row in interval["threads"]:
                late.add_encoded(row["send_late"])
        waited = run.histogram("wait").percentile(50)
        assert waited < 50_000_000 + late.percentile(50), (waited, late.percentile(50))


def test_steps_and_bursts_are_seen_in_the_intervals(pg18: Cluster) -> None:
    burst = segments([(300, 1000, 1000), (300, 0, 0)], repeat=True)
    with Run(config(pg18.conninfo, SELECT, arrival=burst)) as run:
        for end_ms in (300, 600, 900, 1200):
            ended_ns = run.started_ns + end_ms * 1_000_000
            wait_until(lambda at=ended_ns: time.monotonic_ns() >= at, "its time has come")
            run.load.end_interval(end_ms)
    run.assert_balanced()
    # The last interval ends a little after the load was told to stop.
    for interval in run.intervals[:-1]:
        begin, end = ((interval[key] - run.started_ns) / 1e9 for key in ("started_ns", "ended_ns"))
        assert abs(sum(r["intended"] for r in interval["scripts"]) - _burst(begin, end)) <= 1


def _burst(begin: float, end: float) -> float:
    def until(at: float) -> float:
        rounds, rest = divmod(at, 0.6)
        return 1000 * (rounds * 0.3 + min(rest, 0.3))

    return until(end) - until(begin)


def test_a_sine_brings_its_mean(pg18: Cluster) -> None:
    sine = {"kind": "sine", "mean": 500, "amplitude": 500, "period_ms": 200, "phase": 0.25}
    arrival = {"process": "constant", "profile": sine, "when_busy": "queue"}
    with Run(config(pg18.conninfo, SELECT, arrival=arrival)) as run:
        run.wait_for(lambda run: run.total["intended"] >= 500)
        before = since_start(run)
    half_wave = 500 * 0.2 / 3.14
    assert_held(run, 500 * before - half_wave, 500 * since_start(run) + half_wave)


def test_the_rate_can_be_changed_while_it_runs(pg18: Cluster) -> None:
    load = config(pg18.conninfo, SELECT, clients=8, threads=2, arrival=steady(0.5))
    with Run(load) as run:
        time.sleep(0.1)
        asked = time.monotonic()
        run.load.set_rate("g", 1000)
        run.wait_until_known()
        in_force = time.monotonic()
        run.wait_for_more("done", 250)
        to_stop = time.monotonic()
        run.load.set_rate("g", 0)
        run.wait_until_known()
        stopped = time.monotonic()
        intended = run.total["intended"]
        time.sleep(0.1)
        with pytest.raises(EngineError, match="between 0 and"):
            run.load.set_rate("g", 1e9)
        with pytest.raises(EngineError, match="between 0 and"):
            run.load.set_rate("g", -1)
    assert_held(run, 500 * (to_stop - in_force) - 2, 500 * (stopped - asked) + 2)
    assert run.total["intended"] == intended


def test_clients_come_and_go_under_a_rate(pg18: Cluster) -> None:
    load = config(pg18.conninfo, SELECT, clients=6, threads=2, arrival=steady(500))
    with Run(load) as run:
        for clients in (1, 7, 0):
            run.wait_for_more("done", 50)
            run.load.set_clients("g", clients)
        run.wait_for(lambda run: run.last["groups"][0]["clients"] == 0)
        run.wait_for_more("intended", 50)
        assert run.total["backlog"] > 40
        run.load.set_clients("g", 4)
        run.wait_for_more("done", 50)
        for limit in (2, 1, 3, None):
            run.load.set_pool_max("g", limit)
            run.wait_for_more("done", 50)
        work_off(run)
    run.assert_balanced()
    assert run.total["failed"] == run.total["skipped"] == 0


def test_groups_have_rates_of_their_own(pg18: Cluster) -> None:
    load = json.loads(config(pg18.conninfo, SELECT, arrival=steady(300), threads=2))
    (first,) = load["groups"]
    load["groups"] += [first | {"name": "h", "arrival": steady(100)}]
    load["groups"] += [first | {"name": "closed", "arrival": None, "clients": 1}]
    with Run(json.dumps(load)) as run:
        run.wait_for(lambda run: run.total["intended"] >= 1000)
        with pytest.raises(EngineError, match="closed loop"):
            run.load.set_rate("closed", 2)
        before = since_start(run)
    after = since_start(run)
    by_group = {
        name: sum(r["intended"] for i in run.intervals for r in i["scripts"] if r["group"] == name)
        for name in ("g", "h")
    }
    assert 300 * before - 2 <= by_group["g"] <= 300 * after + 2
    assert 100 * before - 2 <= by_group["h"] <= 100 * after + 2


def test_what_is_too_late_is_skipped_and_what_ends_late_is_counted(pg18: Cluster) -> None:
    load = config(
        pg18.conninfo, "select pg_sleep(0.02);", clients=2, arrival=steady(1000),
        latency_limit_us=30_000,
    )  # fmt: skip
    with Run(load) as run:
        run.wait_for(lambda run: run.total["done"] >= 50)
    run.assert_balanced()
    assert run.total["skipped"] > 300
    assert run.total["late"] > 10
    assert run.total["late"] <= run.total["done"]
    # Whoever is in time has only the way through the event loop before it.
    stall_us = max(row["loop_stall_us_max"] for i in run.intervals for row in i["threads"])
    assert run.histogram("wait").max <= 30_000_000 * 1.02 + 5_000_000 + stall_us * 1000


@pytest.mark.parametrize("pool", [None, {"max": 2, "min_idle": 2}], ids=["own", "pool"])
def test_a_server_that_stands_still_is_seen_by_those_who_were_due(
    new_cluster: Callable[..., Cluster], pool: dict[str, int] | None
) -> None:
    rate = 300
    cluster = new_cluster()
    load = config(cluster.conninfo, SELECT, clients=4, threads=2, arrival=steady(rate), pool=pool)
    with Run(load) as run:
        run.wait_for(lambda run: run.load.connections() == (2 if pool else 4))
        run.wait_for_more("done", 50)
        with stopped_backends(cluster):
            # Nobody has time for those due in two seconds, and they are counted all the same.
            run.wait_for(lambda run: run.total["backlog"] >= 2 * rate)
        run.wait_for(lambda run: run.total["backlog"] < 5)
    assert_held(run, 2 * rate, rate * since_start(run) + 1)
    response = run.histogram("response")
    # Half of these waited for longer than a second, the first for all of it.
    assert response.count_between(1_000_000_000, 400_000_000_000) >= 0.9 * rate
    assert 1.9 <= response.max / 1e9 <= since_start(run)


@contextlib.contextmanager
def stopped_backends(cluster: Cluster) -> Iterator[None]:
    """Every client backend stands still, and the process that would start more."""
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity"
            " where backend_type = 'client backend' and pid <> pg_backend_pid()"
        ).fetchall()
    pids = [pid for (pid,) in rows]
    pids.append(int(Path(f"/proc/{pids[0]}/stat").read_text().split()[3]))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("pool", [None, {"max": 2}], ids=["own", "pool"])
def test_a_restarted_server_is_connected_to_again(
    new_cluster: Callable[..., Cluster], pool: dict[str, int] | None
) -> None:
    cluster = new_cluster()
    load = config(cluster.conninfo, SELECT, threads=2, arrival=steady(300), pool=pool)
    with Run(load) as run:
        run.wait_for_more("done", 50)
        cluster.restart()
        run.wait_for_more("done", 50)
        work_off(run)
    run.assert_balanced()
    assert run.total["reconnects"] >= 1
    assert run.total["intended"] == run.total["done"] + run.total["failed"] + run.total["backlog"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"arrival": steady(1), "think_ms": 5}, "think_ms and an arrival"),
        ({"arrival": steady(-1)}, "rate_from is -1"),
        ({"arrival": steady(1e8)}, "between 0 and 10000000"),
        ({"arrival": segments([])}, r"arrival\.profile\.segments is 0"),
        ({"arrival": segments([(0, 1, 1)])}, "duration_ms is 0"),
        ({"arrival": steady(1, when_busy="skip", queue_max=3)}, "has no queue"),
        ({"arrival": steady(1, queue_max=0)}, r"arrival\.queue_max is 0"),
        ({"arrival": steady(1, process="gamma")}, "constant"),
        (
            {
                "arrival": steady(1)
                | {"profile": {"kind": "sine", "mean": 1, "amplitude": 2, "period_ms": 5}}
            },
            "below 0",
        ),
        ({"latency_limit_us": 0}, "latency_limit_us is 0"),
    ],
)
def test_what_makes_no_rate_is_refused_in_words(
    pg18: Cluster, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        Load(config(pg18.conninfo, SELECT, **keys))
