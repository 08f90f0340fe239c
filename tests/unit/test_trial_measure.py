"""What a pair is compared by: throughput, or latency where both sides hold a fixed rate."""

from __future__ import annotations

from typing import Any

import pytest

from pgdyno.spec import Change, spec_from_fields
from pgdyno.stats import noise_floor, paired_effect
from pgdyno.trial.pairs import Noise, _GroupCounts, _measure_of, _Side, _verdict, same_rate

OPEN = {"name": "open", "count": 16, "arrival": {"rate": 100}}
CLOSED = {"name": "closed"}
IDLE = {"name": "idle", "idle": True}


@pytest.mark.parametrize(
    ("groups", "done", "backlog_growth", "measure"),
    [
        ([OPEN], 1000, 0, "latency_p99"),
        ([OPEN, IDLE], 995, 0, "latency_p99"),
        ([OPEN], 985, 15, "latency_p99"),
        ([OPEN], 900, 0, "throughput"),
        ([OPEN], 900, 100, "throughput"),
        ([OPEN, CLOSED], 1000, 0, "throughput"),
        ([CLOSED], 1000, 0, "throughput"),
    ],
)
def test_latency_only_where_all_rates_are_held(
    groups: list[dict[str, Any]], done: int, backlog_growth: int, measure: str
) -> None:
    spec = spec_from_fields({"clients": groups})
    sides = {
        "a": _Side(groups={"open": _GroupCounts(1000, 1000)}),
        "b": _Side(groups={"open": _GroupCounts(1000, done, backlog_growth)}),
    }
    assert _measure_of(spec, sides) == measure


def test_a_small_group_that_does_not_hold_its_rate_is_not_hidden_by_a_large_one() -> None:
    few = {"name": "few", "arrival": {"rate": 1}}
    spec = spec_from_fields({"clients": [OPEN, few]})
    large = _GroupCounts(100_000, 100_000)
    held = _Side(groups={"open": large, "few": _GroupCounts(100, 100)})
    failing = _Side(groups={"open": large, "few": _GroupCounts(100, 3)})
    assert _measure_of(spec, {"a": held, "b": held}) == "latency_p99"
    assert _measure_of(spec, {"a": held, "b": failing}) == "throughput"


def test_a_shorter_tail_at_a_held_rate_is_better_and_says_why() -> None:
    still = noise_floor([1.0, 1.01, 1.0, 0.99, 1.0, 1.0], [1.0, 1.0, 1.01, 1.0, 0.99, 1.0])
    effect = paired_effect([10.0, 11, 10, 10, 11, 10], [5.0, 5.2, 5, 5.1, 5, 5])
    noise = Noise(still, still, "latency_p99")
    verdict = _verdict(effect, noise, "latency_p99")
    assert verdict.outcome == "better"
    assert verdict.sentence.startswith("both sides held the rate, so throughput is equal")
    slower = paired_effect([5.0, 5.2, 5, 5.1, 5, 5], [10.0, 11, 10, 10, 11, 10])
    assert _verdict(slower, noise, "latency_p99").outcome == "worse"
    own = _verdict(effect, noise, "latency_p99", same_rate=False)
    assert own.sentence.startswith("each side held its own rate; p99 better: ")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (Change(settings={"work_mem": "8MB"}), True),
        (Change(spec={"load.protocol": "simple"}), True),
        (Change(rate={"clients": 2.0}), False),
        (Change(spec={"clients.arrival.rate": "900"}), False),
    ],
)
def test_whether_both_sides_ask_for_the_same_rate(change: Change, same: bool) -> None:
    server = {"kind": "existing", "conninfo": "host=here"}
    spec = spec_from_fields({"server": server, "clients": [{"arrival": {"rate": 100}}]})
    assert same_rate(spec, Change(), change) == same
