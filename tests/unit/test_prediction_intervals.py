"""Predictions with what the model leaves open: the cost of being woken, the queue for the cores,
another's flush, and what statements take without their cause. Each has controls in both directions.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from diagnose_runs import CPU, WAL_SYNC, Load, diagnosed, written
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdyno.facts.model import ClosedLoop, used_part
from pgdyno.facts.situation import Situation
from pgdyno.investigate._trials import interval_columns
from pgdyno.record.finding import Proposal
from pgdyno.spec import Change
from pgdyno.stats import PairedEffect
from pgdyno.stats.prediction import Prediction, between, overlap, prediction_of

# Eight sessions wait 9 ms for a flush; a transaction takes 0.4 ms of CPU, and its rest is a queue.
WAITING = ClosedLoop(
    cores=2.0, sessions=8.0, throughput_tps=800.0, cpu_s=0.0004, flush_s=0.009, rest_s=0.0005
)
WOKEN = replace(WAITING, generator_woken_s=0.0001, server_woken_s=0.0002, queued_s=0.0005)
ratios = st.floats(0.01, 100.0)


@given(ratio=ratios, low=ratios, high=ratios, most=ratios)
def test_an_interval_contains_its_guess(ratio: float, low: float, high: float, most: float) -> None:
    made = Prediction(ratio, low, high)
    assert made.low <= made <= made.high
    assert 0.0 <= made.lifted < 1.0
    limited = made.limited(most)
    assert limited.low <= limited <= limited.high <= most


@given(cautious=ratios, more=st.floats(1.0, 10.0))
def test_between_two_assumptions_is_an_interval_that_has_both(cautious: float, more: float) -> None:
    made = between(Prediction(cautious), Prediction(cautious * more))
    assert made == pytest.approx(cautious * more**0.5)
    assert made.low == pytest.approx(cautious)
    assert made.high == pytest.approx(cautious * more)


@given(ratio=ratios, low=ratios, high=ratios)
def test_the_models_own_error_widens_an_interval(ratio: float, low: float, high: float) -> None:
    made = Prediction(ratio, low, high)
    wider = made.with_model_error()
    assert wider == made
    assert wider.low <= made.low
    assert made.high <= wider.high
    assert (wider.interval is None) == (made.interval is None)


def test_the_models_error_is_relative_to_the_effect() -> None:
    wide = Prediction(100.0, 99.999, 100.001).with_model_error()
    assert wide.low == pytest.approx(100.0**0.88, rel=1e-3)
    assert wide.high == pytest.approx(100.0**1.12, rel=1e-3)
    narrow = Prediction(1.01, 1.009, 1.011).with_model_error()
    assert narrow.high < 1.013


def test_the_error_of_measuring_is_relative_to_the_effect_too() -> None:
    measured = Prediction(1.2, 1.19, 1.21).with_model_error(0.4)
    assert measured.low == pytest.approx(1.2**0.58, rel=5e-3)
    assert measured.high == pytest.approx(1.2**1.42, rel=5e-3)


def test_a_number_has_no_interval() -> None:
    assert prediction_of(1.5).interval is None


def test_without_a_change_nothing_is_predicted() -> None:
    unchanged = WOKEN.ratio()
    assert (unchanged.low, float(unchanged), unchanged.high) == pytest.approx((1.0, 1.0, 1.0))


def test_being_woken_costs_less_in_company() -> None:
    """Without flushes the cores are the limit: 0.4 ms are left at the cautious end, 0.1 and a
    little at the other, and the queue for a core costs nothing there."""
    as_it_is, woken = WAITING.ratio(flush=0.0), WOKEN.ratio(flush=0.0)
    assert woken.low == pytest.approx(as_it_is.low)
    assert woken > 1.5 * as_it_is
    cores = WOKEN.cores / WOKEN.throughput_tps
    assert woken < woken.high <= cores / 0.0001
    assert woken.low <= cores / 0.0004


def test_a_flush_that_goes_takes_none_of_the_rest_that_is_no_queue() -> None:
    fixed = replace(WAITING, rest_s=0.005).ratio(flush=0.0)
    queue = replace(WAITING, rest_s=0.005, queued_s=0.005).ratio(flush=0.0)
    assert fixed.high < 3.0 < queue <= queue.high


def test_fewer_sessions_have_less_company() -> None:
    fewer = WOKEN.ratio(sessions=2)
    assert fewer.high == pytest.approx(WAITING.ratio(sessions=2).high)
    assert fewer.high < 1.0


def test_a_pool_gains_by_its_sessions_where_each_commit_already_waits_for_two_flushes() -> None:
    """Two sessions take turns: each waits for the other's flush of 5 ms and for its own."""
    turns = ClosedLoop(2.0, 2.0, 197.0, 0.0002, flush_s=0.01, flush_once_s=0.005).fitted()
    assert 7.5 < turns.ratio(sessions=16) <= 8.0
    alone = replace(turns, flush_once_s=0.01).fitted()
    assert alone.ratio(sessions=16) < 6.0


def test_more_commits_meet_more_flushes_of_others() -> None:
    """Commits wait for a standby and 1.4 flushes. Without it they come one after another, and may
    wait for two."""
    remote = ClosedLoop(
        *(2.0, 8.0, 700.0, 0.0002),
        flush_s=0.0014,
        replica_s=0.0098,
        flush_once_s=0.001,
        queue_cost=0.18,
    ).fitted()
    met = remote.ratio(replica=0.0)
    never = replace(remote, flush_once_s=0.0014).ratio(replica=0.0)
    assert met.low < met < met.high
    assert met.high == pytest.approx(never.high, rel=0.01)
    assert met.low < 0.9 * never.low


@pytest.mark.parametrize(
    ("waiting", "until_commit", "low", "high"),
    [
        (7.0, True, 4.0, 40.0),  # a flush is nearly all that is done while it is held
        (7.0, False, 1.0, 1.02),  # nothing beside the lock can gain
        (0.2, False, 1.5, 8.0),  # it is held for a small part of the time
    ],
)
def test_a_lock_that_is_always_held_bounds_all_that_is_done_without_it(
    waiting: float, until_commit: bool, low: float, high: float
) -> None:
    """Of eight sessions those that do not wait for the lock take 4.8 ms, with a flush of 4.6."""
    tps = (8.0 - waiting) / 0.0048
    loop = ClosedLoop(
        *(2.0, 8.0, tps, 0.0002),
        flush_s=0.0046,
        advisory_s=waiting / tps,
        until_commit=until_commit,
    )
    assert low <= loop.fitted().ratio(flush=0.0) <= high


@given(sessions=st.integers(2, 200), part=st.floats(0.001, 0.999))
def test_more_sessions_wait_for_a_lock_that_is_held_for_more_of_the_time(
    sessions: int, part: float
) -> None:
    waiting = part * (sessions - 1)
    used = used_part(waiting, sessions)
    assert 0.0 < used <= 1.0
    assert used <= used_part(waiting * 1.1, sessions) + 1e-9
    # Those who do not wait, and do not hold it, come to it from elsewhere.
    assert waiting + used <= sessions


def test_the_use_of_a_lock_is_that_of_one_machine_repairman() -> None:
    """Six machines that break down after twice the time that a repair takes: states of 1, 3, 7.5,
    15, 22.5, 22.5 and 11.25 parts."""
    parts = (1.0, 3.0, 7.5, 15.0, 22.5, 22.5, 11.25)
    idle = parts[0] / sum(parts)
    waiting = sum(number * part for number, part in enumerate(parts)) / sum(parts) - (1.0 - idle)
    assert used_part(waiting, 6.0) == pytest.approx(1.0 - idle, rel=1e-6)


SHORT = Load(
    clients=8,
    tps=500,
    service_ms=16.0,
    busy=0.2,
    generator_busy=0.04,
    sessions={WAL_SYNC: 7.0, CPU: 0.2},
    script_ms=[("begin", 0.02), ("update t set n = 1", 0.06), ("end", 15.6)],
)


def test_the_cost_of_being_woken_is_that_beyond_the_quickest_statements(tmp_path: Path) -> None:
    """720 us of CPU, of which the generator has 80. In company the round trips take 15 us each and
    the update 40 more; the rest is counted up to 85 us for each of three answers."""
    with written(tmp_path, SHORT) as run:
        loop = Situation(run, [1]).loop
    assert loop.generator_woken_s == pytest.approx(65e-6, rel=0.02)
    assert loop.generator_woken_s + loop.server_woken_s == pytest.approx(255e-6)
    busy = [("begin", 0.02), ("select f()", 0.6), ("end", 15.0)]
    with written(tmp_path, replace(SHORT, script_ms=busy)) as run:
        computing = Situation(run, [1]).loop
    assert computing.server_woken_s < 0.5 * loop.server_woken_s


def test_on_saturated_cores_the_generator_alone_is_woken(tmp_path: Path) -> None:
    """40 us of the generator for each transaction of one statement, 35 more than in company."""
    load = replace(SHORT, busy=1.0, sessions={CPU: 7.5}, script_ms=[("select f()", 16.0)])
    with written(tmp_path, replace(load, generator_busy=0.02)) as run:
        loop = Situation(run, [1]).loop
    assert loop.saturated
    assert loop.server_woken_s == 0.0
    assert loop.generator_woken_s == pytest.approx(35e-6, rel=0.02)


def test_without_the_times_of_statements_only_the_queue_is_open(tmp_path: Path) -> None:
    with written(tmp_path, replace(SHORT, script_ms=())) as run:
        loop = Situation(run, [1]).loop
    assert loop.generator_woken_s == loop.server_woken_s == loop.queued_s == 0.0


SPILLS = Load(
    clients=8,
    tps=250,
    service_ms=32.0,
    statements_ms=32.0,
    busy=0.2,
    sessions={("IO", "BufFileRead"): 7.5, CPU: 0.2},
    settings={"work_mem": "64kB"},
    host_facts={"memory_bytes": 8 << 30},
    counters={
        "metric_database": [
            {"temp_files": 250, "temp_bytes": 250 * 60_000, "tup_returned": 250 * 1000}
        ]
    },
)


def _sorting(tmp_path: Path, rows: int) -> Prediction:
    counted = {"temp_files": 250, "temp_bytes": 250 * 60_000, "tup_returned": 250 * rows}
    load = replace(SPILLS, counters={"metric_database": [counted]})
    finding = diagnosed(tmp_path, load)["temp-files"]
    (more,) = [each for each in finding.proposals if each.remedy_id == "work-mem"]
    return more.prediction


def test_a_sort_in_memory_takes_what_its_rows_take_at_least(tmp_path: Path) -> None:
    """1.6 ms of CPU are measured; 1,000 rows are known to take 0.2 of them, 10,000 all."""
    few, many = _sorting(tmp_path, 1000), _sorting(tmp_path, 10_000)
    assert few.high > 2 * few.low
    assert few > 1.3 * many
    assert many.low <= few.low * 1.01


def test_an_interval_goes_into_results_and_run_files() -> None:
    made = Proposal(
        remedy_id="jit-off",
        change=Change(settings={"jit": "off"}),
        predicted_ratio=Prediction(20.0, 12.0, 30.0),
        why="why",
    )
    row = json.loads(json.dumps(made.to_json()))
    assert (row["predicted_ratio"], row["predicted_interval"]) == (20.0, [12.0, 30.0])
    stored = {"predicted_ratio_lo": 12.0, "predicted_ratio_hi": 30.0}
    assert interval_columns(made.prediction) == stored
    assert set(interval_columns(2.0).values()) == {None}


@pytest.mark.parametrize(
    ("measured", "overlaps"),
    [((13.0, 14.0, 15.0), True), ((9.0, 11.0, 12.5), True), ((8.0, 9.0, 11.9), False)],
)
def test_measured_and_predicted_intervals_overlap_or_not(
    measured: tuple[float, float, float], overlaps: bool
) -> None:
    lo, ratio, hi = measured
    effect = PairedEffect(ratio, lo, hi, 6, 0.1)
    assert overlap(effect, Prediction(20.0, 12.0, 30.0)) is overlaps
    assert not overlap(effect, ratio)


def test_cores_that_are_busy_bound_every_gain() -> None:
    """A transaction takes 4.5 ms of 1.9 cores: 422 of them a second, of which 417 are done."""
    busy = ClosedLoop(
        cores=1.9, sessions=2.8, throughput_tps=417, cpu_s=0.0045, flush_s=0.0022
    ).ratio(flush=0.0)
    assert 1.0 <= busy.low <= busy.high <= 1.02


def test_more_sessions_do_no_more_than_as_many_times_as_much() -> None:
    idle = replace(WOKEN, spare_cores=math.inf, rest_s=0.05)
    assert idle.ratio_of_more(4 * idle.sessions).high <= 4.0
