"""The search for the largest storm, with simulated outcomes, and what storms under changes say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from result_samples import storm_point

from pgdyno.search._bisection import STORM_GAP_MAX, StormSearch
from pgdyno.search._storm_load import SHAPES
from pgdyno.search._storm_variants import variant_of, variants_of, within_time
from pgdyno.spec import Change
from pgdyno.spec.pooler import PoolerSpec


@given(limit=st.integers(0, 3000), most=st.integers(1, 2000))
def test_the_search_ends_at_the_limit(limit: int, most: int) -> None:
    search = StormSearch(most)
    made = 0
    while (clients := search.next_clients()) is not None:
        assert 1 <= clients <= most
        search.add(clients, met=clients <= limit)
        made += 1
    assert made <= 40
    assert (search.met or 0) <= limit
    if limit >= most:
        assert (search.met, search.too_high) == (most, None)
    else:
        assert search.too_high is not None
        assert search.too_high > limit
        if search.met is None:
            assert search.too_high == 1
        else:
            gap = search.too_high - search.met
            assert search.too_high / search.met <= STORM_GAP_MAX or gap == 1


def test_one_stall_is_no_limit() -> None:
    search = StormSearch(64)
    search.add(4, met=True)
    search.add(8, met=False)
    assert search.next_clients() == 8
    search.add(8, met=True)
    assert search.too_high is None
    assert search.next_clients() == 16


@given(shape=st.sampled_from(sorted(SHAPES)), clients=st.integers(1, 10_000))
def test_a_shape_ends_with_all_its_clients(shape: str, clients: int) -> None:
    stages = SHAPES[shape].stages(clients, 10)
    assert max(stage.clients for stage in stages) == clients
    timed = [stage for stage in stages if stage.counts and stage.seconds is None]
    assert timed
    assert all(stage.clients == clients for stage in timed)
    assert sum(stage.seconds or 0 for stage in stages) <= 10


def test_what_is_changed_depends_on_the_shape() -> None:
    assert list(variants_of("leak", "g", 1000, 1000)) == [""]
    assert list(variants_of("herd", "g", 1, 1)) == [""]
    herd = variants_of("herd", "g", 1000, 1000)
    assert [change.spec.get("load.connecting_max") for change in herd.values()] == [
        None, "10", "100", None,
    ]  # fmt: skip
    assert [change.pool_max for change in herd.values()] == [{}, {}, {}, {"g": 50}]
    assert any("pauses" in title for title in variants_of("retry", "g", 1000, 1000))
    assert not any("100 at" in title for title in variants_of("herd", "g", 1000, 50))


def test_the_queues_of_a_pooler_are_limited() -> None:
    def keys(kind: str, clients: int = 200, **settings: str) -> set[str]:
        pooler = PoolerSpec.model_validate({"kind": kind, "settings": settings})
        found = variants_of("herd", "web", clients, 10_000, pooler)
        return {key for change in found.values() for key in change.spec} - {"load.connecting_max"}

    of_pgbouncer = {"pooler.query_wait_timeout", "pooler.listen_backlog"}
    assert keys("pgbouncer") == of_pgbouncer
    assert keys("pgbouncer", clients=100) == {"pooler.query_wait_timeout"}
    assert keys("pgbouncer", query_wait_timeout="5") == {"pooler.listen_backlog"}
    assert keys("pgpool") == {"pooler.reserved_connections", "pooler.listen_backlog_multiplier"}
    assert keys("haproxy") == set()
    assert keys("haproxy", **{"default-server": "maxconn 5"}) == {"pooler.timeout queue"}
    assert variants_of("leak", "web", 200, 10_000, PoolerSpec()) == {"": Change()}


def test_no_more_is_changed_than_there_is_time_for() -> None:
    changes = variants_of("herd", "web", 200, 10_000, PoolerSpec())
    kept, untried = within_time(changes, 2)
    assert list(kept) + untried == list(changes)
    assert len(kept) == 2
    assert within_time(changes, 100) == (changes, [])


def test_a_difference_is_one_only_beyond_the_spread() -> None:
    plain = [storm_point(steady_s=took) for took in (2.0, 2.2, 2.4)]
    sooner = [storm_point(steady_s=took) for took in (1.0, 1.1, 1.9)]
    alike = [storm_point(steady_s=took) for took in (1.0, 1.1, 2.0)]
    failed = [storm_point(survived=False, steady_s=None)] * 3
    say = lambda points: variant_of("x", 100, points, plain).sentence  # noqa: E731
    assert [say(each) for each in (sooner, alike, failed)] == snapshot(
        [
            "x: steady sooner, after 1.1 instead of 2.2 s, no errors",
            "x: no difference of time that exceeds the spread, no errors",
            "x: 0 of 3 storms survived instead of 3",
        ]
    )
