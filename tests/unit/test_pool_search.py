"""The search for a pool size within a limit, on simulated servers; arithmetic and settings."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from pgdyno._engine import Histogram
from pgdyno.search._curve import Curve
from pgdyno.search._points import PointSlice
from pgdyno.search._pool_result import PoolSearched, pool_figures
from pgdyno.search._pool_settings import arithmetic, library_settings
from pgdyno.search._preparing import clients_within
from pgdyno.search._sizes import KneeEstimate, SizeSearch
from pgdyno.search.slo import parse_limits
from pgdyno.spec.pooler import PoolerSpec

SLICES = 45


def hump(size: float) -> float:
    """A server that gets slower with more than about 14 connections."""
    return 1000 * size / (1 + 0.05 * (size - 1) + 0.005 * size * (size - 1))


def search(
    curve: Callable[[float], float], meets: Callable[[float, float], bool], *,
    most: int = 64, sd: float = 0.0, seed: int = 0,
) -> KneeEstimate:  # fmt: skip
    """Carry out a search in which ``meets`` judges the mean throughput of a size so far."""
    rng, noise = random.Random(seed), np.random.default_rng(seed)
    looking, taken = SizeSearch(most, rng), 0
    seen: dict[int, list[float]] = {}
    while wanted := looking.next_round(SLICES - taken):
        for size in wanted:
            tps = curve(size) * math.exp(sd * noise.normal())
            seen.setdefault(size, []).append(tps)
            mean = sum(seen[size]) / len(seen[size])
            looking.add(size, tps, met=meets(size, mean))
            taken += 1
    found = looking.found()
    assert found is not None
    return found


def test_sizes_that_do_not_meet_the_limit_do_not_count() -> None:
    """Larger ones have the higher throughput, and their p99 is too long."""
    found = search(hump, lambda size, _: size <= 6)
    assert found.meets
    assert found.knee == 6
    assert found.saturated
    assert max(found.top) <= 6


def test_the_queue_is_too_long_where_the_pool_is_too_small() -> None:
    """In a closed loop the response is clients / throughput: 100 clients have to take 20 ms."""
    for seed in range(10):
        found = search(hump, lambda _, tps: 100 / tps < 0.02, sd=0.03, seed=seed)
        assert found.meets
        assert hump(found.knee) >= 0.85 * max(hump(n) for n in range(1, 65))


def test_a_limit_that_no_size_meets_leaves_the_highest_throughput() -> None:
    found = search(hump, lambda *_: False)
    assert not found.meets
    assert hump(found.knee) >= 0.92 * max(hump(n) for n in range(1, 65))


def test_a_size_that_is_too_small_to_do_anything_is_passed_over() -> None:
    looking = SizeSearch(16, random.Random(1))
    assert looking.next_round(10) == [1]
    looking.too_few(1)
    assert looking.next_round(10) == [2]
    looking.add(2, 10.0)
    assert looking.next_round(10) == [4]


@pytest.mark.parametrize(
    ("size", "instances", "each", "total", "said"),
    [
        (32, 1, 32, 32, "1 instance has all 32"),
        (32, 4, 8, 32, "32 / 4 instances = 8 each, 32 in all"),
        (10, 4, 2, 8, "10 / 4 instances = 2 each, 8 in all; 2 of the 10 remain"),
        (3, 8, 1, 8, "8 instances need 1 connection each, 8 in all, more than the 3"),
    ],
)
def test_connections_are_divided_among_instances(
    size: int, instances: int, each: int, total: int, said: str
) -> None:
    found = arithmetic(size, instances)
    assert (found.size_each, found.total) == (each, total)
    assert found.sentence.startswith(said)


def test_libraries_have_their_own_names() -> None:
    found = {each.of: each.settings for each in library_settings(12)}
    assert found == {
        "HikariCP": {"maximumPoolSize": 12},
        "Commons DBCP2": {"maxTotal": 12, "maxIdle": 12},
        "Tomcat JDBC": {"maxActive": 12, "maxIdle": 12},
        "SQLAlchemy": {"pool_size": 12, "max_overflow": 0},
    }


@pytest.mark.parametrize(
    ("slo", "clients"),
    [("p99<30ms", 20), ("mean<12ms", 20), ("p99<30ms,mean<6ms", 10), ("p99<1us", 2),
     ("p99<1h", 128)],
)  # fmt: skip
def test_a_limit_has_room_for_so_many_clients(slo: str, clients: int) -> None:
    assert clients_within(parse_limits(slo), 2000, 128) == clients


def outcome(found: KneeEstimate, clients: int = 100, **more: Any) -> dict[str, Any]:
    """The members of a result, with slices that follow from the levels."""
    curve = Curve()
    for place, size in enumerate(found.levels.points):
        tps = found.levels.value(place)
        response = Histogram()
        for _ in range(1000):
            response.record(round(1e9 * clients / tps))
        service_ms = 1000 * size / tps
        curve.add(size, PointSlice(size, 1.0, tps, (tps, tps), response, service_ms,
                                   behind=False, failing="", why=""))  # fmt: skip
    made: dict[str, Any] = {
        "group": "web", "clients": clients, "pooler": PoolerSpec(), "rate_tps": None, "limits": (),
        "instances": 1, "found": found, "curve": curve, "hold": None, "limit": None,
        "larger": None, "why_no_larger": "--pool-max 16", "out_of_time": False, "elapsed_s": 1.0,
    }  # fmt: skip
    return pool_figures(PoolSearched(**(made | more)))


def test_growth_to_the_largest_size_is_told() -> None:
    found = search(lambda size: 1000 * size, lambda *_: True, most=16)
    said = outcome(found)
    assert said["best"].size == 16
    assert [said["sentence"], said["limit_beyond"].sentence] == snapshot(
        [
            "the best pool has 16 connections, which have the highest throughput: 16,000 tps, p99 6.26 ms, with 100 clients; throughput may still grow beyond 16, and larger sizes were not tried: --pool-max 16",
            "no larger size was measured: --pool-max 16",
        ]
    )


def test_the_cost_of_connections_beyond_the_best() -> None:
    # Of hump alone the time is 5.75 ms, which rounds up or down with the last bit of a level.
    said = outcome(search(lambda size: 1.01 * hump(size), lambda *_: True))
    beyond = said["beyond"]
    assert beyond.size > said["best"].size
    assert beyond.throughput_ratio < 0.9
    assert beyond.tps_per_connection < 0
    assert beyond.service_ms_per_connection > 0
    assert said["limit_beyond"].sentence == snapshot(
        "with 32 instead of 9 connections throughput falls by 17 % [-20.2, -13.0 %], 0.79 % by each connection more, and a transaction takes 5.7 ms longer on its connection, 0.25 ms by each connection more"
    )


def test_no_size_says_how_long_so_many_clients_take() -> None:
    said = outcome(search(hump, lambda *_: False), limits=parse_limits("p99<2ms"))
    assert said["best"] is None
    assert said["settings"] == ()
    assert said["sentence"].startswith("no size meets p99 < 2ms: with ")
    assert "100 clients at 5," in said["sentence"]


def test_a_pooler_has_its_own_names() -> None:
    pooler = PoolerSpec(kind="pgbouncer", settings={"pool_mode": "transaction"})
    first, *libraries = outcome(search(hump, lambda *_: True), pooler=pooler)["settings"]
    assert first.of == "PgBouncer"
    assert set(first.settings) == {"pool_mode", "default_pool_size", "max_client_conn"}
    assert len(libraries) == 4
