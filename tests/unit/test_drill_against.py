"""The same drill on two servers: what is called a difference, and what is not."""

from __future__ import annotations

import random

import drill_runs

from pgdyno.drill.two_servers import differences


def test_a_real_difference_is_called_one() -> None:
    rng = random.Random(5)
    many = drill_runs.sample_drill([rng.randint(700, 2300) for _ in range(20)])
    few = drill_runs.sample_drill([rng.randint(0, 16) for _ in range(20)], version="15.20")
    found = {each.what: each for each in differences(many, few)}
    assert found["lost"].differs
    assert found["lost_ms"].differs
    assert not found["damaged"].differs
    assert "on 18.6 and" in found["lost"].sentence


def test_the_same_server_does_not_differ_from_itself() -> None:
    drill = drill_runs.sample_drill([0] * 20)
    assert not any(each.differs for each in differences(drill, drill))


def test_damage_on_one_side_only() -> None:
    rng = random.Random(6)
    good = drill_runs.sample_drill([0] * 12)
    bad = drill_runs.sample_drill(
        [], cuts=tuple(drill_runs.sample_cut(n, rng, 0, outcome="refused") for n in range(1, 13))
    )
    found = {each.what: each for each in differences(good, bad)}
    assert found["damaged"].differs
    assert "lost" not in found, "a server that refused to start was never counted"


def test_nothing_to_compare() -> None:
    drill = drill_runs.sample_drill([0] * 3)
    assert differences(drill, drill_runs.sample_drill([])) == []
