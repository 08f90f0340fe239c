"""The search for a rate, against simulated servers; and the limits of the response time."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from inline_snapshot import snapshot

from pgdyno._engine import Histogram
from pgdyno.search._bisection import CONFIRMED, FAILURES_MIN, RateSearch
from pgdyno.search._knee_result import _met_words
from pgdyno.search._points import PointSlice
from pgdyno.search.slo import parse_limits

SLICES = 45


def search(
    capacity: float, *, first: float = 100.0, softness: float = 0.0, seed: int = 0,
    disturbed: float = 0.0,
) -> tuple[RateSearch, int]:  # fmt: skip
    """Look for ``capacity``: near it, within ``softness``, a slice meets the limit by chance; and
    ``disturbed`` of the slices fail at any rate."""
    rng = random.Random(seed)
    looking, taken = RateSearch(first, first / 64, 1e6, random.Random(seed + 1)), 0
    while taken < SLICES and (rate := looking.next_rate()) is not None:
        met = rate < capacity * math.exp(rng.gauss(0, softness))
        looking.add(rate, met=met and rng.random() >= disturbed)
        taken += 1
    return looking, taken


@pytest.mark.parametrize("capacity", [3.0, 99.0, 101.0, 1234.0, 56_789.0])
def test_without_noise_the_rate_is_found(capacity: float) -> None:
    looking, taken = search(capacity)
    assert looking.met is not None
    assert looking.too_high is not None
    assert looking.confirmed
    assert looking.tallies[looking.met].met >= CONFIRMED
    assert looking.met < capacity <= looking.too_high <= 1.06 * looking.met
    assert taken < 35


@pytest.mark.parametrize(("softness", "disturbed"), [(0.05, 0.0), (0.1, 0.0), (0.03, 0.05)])
def test_noise_moves_the_rate_little(softness: float, disturbed: float) -> None:
    shares = []
    for seed in range(40):
        looking, _ = search(1234.0, softness=softness, disturbed=disturbed, seed=seed)
        assert looking.met is not None
        shares.append(looking.met / 1234.0)
    assert 1 - 1.5 * softness <= median(shares) <= 1 + softness / 2
    # A rate that is too high is hardly ever sold as met.
    assert sorted(shares)[-3] <= 1 + 1.5 * softness


def test_stalls_that_come_at_any_rate_hide_the_rate_seldom() -> None:
    found = [search(1234.0, disturbed=0.2, seed=seed)[0].met or 0.0 for seed in range(100)]
    assert sum(rate >= 0.9 * 1234 for rate in found) >= 80
    assert max(found) < 1234


def test_no_rate_meets_the_limit() -> None:
    looking, taken = search(0.5)
    assert looking.met is None
    assert looking.next_rate() is None
    assert taken <= 4 * FAILURES_MIN
    assert min(looking.tallies) == pytest.approx(100 / 64)


def test_every_rate_meets_the_limit() -> None:
    looking, _ = search(1e9)
    assert looking.met == 1e6
    assert looking.too_high is None


def test_a_rate_that_does_not_last_is_rejected() -> None:
    looking, taken = search(1234.0)
    first = looking.met
    assert first is not None
    looking.reject(first)
    assert looking.met is not None
    assert looking.met < first
    while taken < 60 and (rate := looking.next_rate()) is not None:
        looking.add(rate, met=rate < 1000)
        taken += 1
    assert looking.met is not None
    assert 900 < looking.met < 1000


def test_a_rate_that_failed_by_chance_is_doubted() -> None:
    looking = RateSearch(100, 1, 1e6, random.Random(0))
    for _ in range(FAILURES_MIN):
        looking.add(100, met=False)
    looking.add(200, met=True)
    while (rate := looking.next_rate()) == 100:
        looking.add(100, met=True)
    assert looking.status(100) == "met"
    assert rate is not None


def test_a_rate_that_failed_is_not_measured_again_at_once() -> None:
    """A disturbance that lasts for three slices makes no rate too high."""
    looking, taken = RateSearch(100, 1, 1e6, random.Random(0)), 0
    seen: list[float] = []
    while taken < SLICES and (rate := looking.next_rate()) is not None:
        seen.append(rate)
        looking.add(rate, met=rate < 1234 and taken not in (3, 4))
        taken += 1
    assert seen[3] == 800
    assert seen[4] != 800
    assert looking.met is not None
    assert looking.met > 1150


def response(values_ms: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values_ms:
        histogram.record(round(value * 1e6))
    return histogram


def test_limits_are_met_by_their_own_figure() -> None:
    times = response([1.0] * 985 + [50.0] * 15)
    asked = "p50<2ms,p95<2ms,p99<20ms,p999<1s,mean<1.5ms"
    met = {each.figure: each.is_met(times) for each in parse_limits(asked)}
    assert met == {"p50": True, "p95": True, "p99": False, "p99.9": True, "mean": False}


def test_several_limits_and_their_words() -> None:
    limits = parse_limits(" P99 < 20 ms, p99.9<=1s,mean<500us")
    assert [str(each) for each in limits] == ["p99 < 20ms", "p99.9 ≤ 1s", "mean < 500us"]
    assert [each.samples_needed for each in limits] == [1000, 10_000, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a limit"),
        ("p99", "is not a limit"),
        ("p99<", "is not a limit"),
        ("p99>20ms", "is not a limit"),
        ("p99<20", "needs a unit"),
        ("p99<0ms", "no response time"),
        ("p99<-1ms", "is not a duration"),
        ("p99<nan", "is not a duration"),
        ("p98<20ms", '"p98" is none of'),
        ("max<20ms", '"max" is none of'),
        ("p99<20ms,p99<30ms", "limits p99 twice"),
        ("p99<20ms,", "is not a limit"),
        ("p99<20furlongs", "is not a unit"),
    ],
)
def test_what_is_no_limit_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_limits(text)


def test_slices_that_failed_at_the_answer_are_told_with_p99_over_all() -> None:
    """p99 over all of them may be beyond the limit that most of them met."""

    def measured(why: str) -> PointSlice:
        return PointSlice(1, 2.0, 100.0, (100.0, 100.0), Histogram(), 1.0, False, "", why)

    stalled = [measured(""), measured("p99 120 ms"), measured("")]
    assert _met_words(stalled, 90.7) == snapshot(
        " in 2 of 3 slices (p99 90.7 ms over all of these)"
    )
    assert _met_words(stalled, None) == snapshot(" in 2 of 3 slices")
    assert _met_words(stalled[::2], 3.5) == snapshot(", with p99 3.50 ms")
    assert _met_words(stalled[::2], None) == ""
