"""What a pair is compared by: throughput, or latency where both sides hold a fixed rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import report_runs
from inline_snapshot import snapshot

from pgdyno.compare.change import check_budget
from pgdyno.errors import UsageError
from pgdyno.record import RunFile, throughput_tps
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.stats import PairedEffect, paired_effect
from pgdyno.trial._arms import Arm, GroupSlice, SliceFigures, measure_of
from pgdyno.trial._judging import Matters, Noise, judge, same_rate, verdict_of
from pgdyno.trial.recorded import pair_ratios

OPEN = {"name": "open", "count": 16, "arrival": {"rate": 100}}
CLOSED = {"name": "closed"}
IDLE = {"name": "idle", "idle": True}


def side_of(*slices: dict[str, GroupSlice], seconds: float = 1.0) -> Arm:
    return Arm([SliceFigures(n, seconds, groups, 1e6) for n, groups in enumerate(slices)])


def verdict_about(
    spec: Spec, a: list[dict[str, GroupSlice]], b: list[dict[str, GroupSlice]]
) -> Any:
    return judge(spec, {"a": side_of(*a), "b": side_of(*b)}, 0.95, matters=Matters()).verdict


def closed(done: int, failed: int = 0) -> GroupSlice:
    return GroupSlice(done + failed, done, failed)


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
    a = side_of({"open": GroupSlice(1000, 1000)})
    b = side_of({"open": GroupSlice(1000, done, backlog_growth=backlog_growth)})
    assert measure_of(spec, (a, b)) == measure


@pytest.mark.parametrize(("under_way", "measure"), [(1, "latency_p99"), (9, "throughput")])
def test_a_transaction_of_each_client_may_be_under_way_when_a_slice_ends(
    under_way: int, measure: str
) -> None:
    spec = spec_from_fields({"clients": [OPEN | {"count": 4}]})
    at_rest = [{"open": GroupSlice(100, 100)}] * 6
    ending = [{"open": GroupSlice(100, 100 - under_way, backlog_growth=under_way)}] * 6
    assert measure_of(spec, (side_of(*at_rest), side_of(*ending))) == measure


def test_a_small_group_that_does_not_hold_its_rate_is_not_hidden_by_a_large_one() -> None:
    few = {"name": "few", "arrival": {"rate": 1}}
    spec = spec_from_fields({"clients": [OPEN, few]})
    large = GroupSlice(100_000, 100_000)
    held = side_of({"open": large, "few": GroupSlice(100, 100)})
    failing = side_of({"open": large, "few": GroupSlice(100, 3)})
    assert measure_of(spec, (held, held)) == "latency_p99"
    assert measure_of(spec, (held, failing)) == "throughput"


def test_a_shorter_tail_at_a_held_rate_is_better_and_says_why() -> None:
    effect = paired_effect([10.0, 11, 10, 10, 11, 10], [5.0, 5.2, 5, 5.1, 5, 5])
    verdict = verdict_of(effect, "latency_p99", Matters())
    assert verdict.outcome == "better"
    assert verdict.sentence.startswith("both sides held the rate, so throughput is equal")
    slower = paired_effect([5.0, 5.2, 5, 5.1, 5, 5], [10.0, 11, 10, 10, 11, 10])
    assert verdict_of(slower, "latency_p99", Matters()).outcome == "worse"
    own = verdict_of(effect, "latency_p99", Matters(), same_rate=False)
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


def test_one_rule_holds_for_throughput_latency_and_each_group() -> None:
    shown = PairedEffect(1.0, 0.7, 1.4, 6, 0.27)
    noise = Noise(shown, shown, "throughput")
    slower = paired_effect([100.0, 102, 98, 100, 103, 99], [83.0, 84, 81, 83, 86, 82])
    assert verdict_of(slower, "throughput", Matters()).outcome == "worse"
    for measure in ("throughput", "latency_p99"):
        assert verdict_of(slower, measure, Matters(), noise=noise).outcome == "inconclusive"
    a = [{"reads": closed(1000 + n), "checkout": closed(100 + n)} for n in range(6)]
    b = [{"reads": closed(1000 - n), "checkout": closed(83 + n)} for n in range(6)]
    sides = {"a": side_of(*a), "b": side_of(*b)}
    for known, outcome in ((None, "worse"), (noise, "inconclusive")):
        judged = judge(TWO, sides, 0.95, matters=Matters(), noise=known)
        assert {each.name: each.verdict.outcome for each in judged.groups}["checkout"] == outcome


TWO = spec_from_fields({"clients": [{"name": "reads"}, {"name": "checkout"}]})
ONE = spec_from_fields({"clients": [{"name": "clients"}]})


def test_a_starved_group_vetoes_a_larger_sum() -> None:
    a = [{"reads": closed(1000 + n), "checkout": closed(100 + n)} for n in range(6)]
    b = [{"reads": closed(1500 + n), "checkout": closed(40 + n)} for n in range(6)]
    verdict = verdict_about(TWO, a, b)
    assert verdict.outcome == "mixed"
    assert verdict.sentence == snapshot(
        "mixed: client group checkout loses: 0.41x [0.40, 0.43]; in total better: 1.40x [1.40, 1.40] in 6 pairs"
    )
    assert len(verdict.against) == 1
    assert verdict_about(TWO, b, a).outcome == "worse", "reads lose, and with them the sum"


def test_a_group_that_gains_less_than_another_is_no_loss() -> None:
    a = [{"reads": closed(1000 + n), "checkout": closed(100 + n)} for n in range(6)]
    b = [{"reads": closed(1500 + n), "checkout": closed(101 + n)} for n in range(6)]
    assert verdict_about(TWO, a, b).outcome == "better"


def test_a_group_that_does_nothing_loses() -> None:
    a = [{"reads": closed(1000 + n), "checkout": closed(10)} for n in range(6)]
    b = [{"reads": closed(2000 + n), "checkout": GroupSlice(1, 0)} for n in range(6)]
    assert verdict_about(TWO, a, b).outcome == "mixed"


def test_a_change_that_fails_transactions_does_not_win() -> None:
    a = [{"clients": closed(1000 + n)} for n in range(6)]
    b = [{"clients": closed(1500 + n, failed=5 + n)} for n in range(6)]
    verdict = verdict_about(ONE, a, b)
    assert verdict.outcome == "mixed"
    assert verdict.sentence == snapshot(
        "mixed: 0.5 % of the transactions fail with the change, 0 % without; in total better: 1.50x [1.50, 1.50] in 6 pairs"
    )
    few = [{"clients": closed(15_000 + n, failed=1)} for n in range(6)]
    many = [{"clients": closed(10_000 + n)} for n in range(6)]
    assert verdict_about(ONE, many, few).outcome == "better", "a failure in 15,000 is no veto"


def test_a_change_that_loses_in_total_is_worse_whoever_loses() -> None:
    a = [{"reads": closed(1000 + n), "checkout": closed(100 + n)} for n in range(6)]
    b = [{"reads": closed(500 + n), "checkout": closed(120 + n)} for n in range(6)]
    verdict = verdict_about(TWO, a, b)
    assert verdict.outcome == "worse"
    assert verdict.sentence == snapshot(
        "worse: 0.57x [0.56, 0.57] in 6 pairs; client group reads loses: 0.50x [0.50, 0.50]"
    )


def test_an_open_loop_is_credited_with_what_became_due_in_the_slice() -> None:
    spec = spec_from_fields({"clients": [OPEN]})
    after_a_slow_slice = side_of({"open": GroupSlice(1000, 1300, backlog_growth=-300)})
    assert after_a_slow_slice.tps(spec) == [1000]
    too_slow = side_of({"open": GroupSlice(1000, 900, backlog_growth=100)})
    assert too_slow.tps(spec) == [900]


def test_a_closed_loop_is_credited_with_all_that_it_did() -> None:
    assert side_of({"clients": GroupSlice(1000, 1002)}).tps(ONE) == [1002]


@pytest.mark.parametrize(("arrival", "expected"), [({"rate": 5000}, 0.8), (None, 1.0)])
def test_recorded_pairs_count_no_more_of_an_open_loop_than_became_due(
    tmp_path: Path, arrival: dict[str, Any] | None, expected: float
) -> None:
    """The changed side does a fifth of its transactions for a queue that was left to it."""
    spec = {"clients": [{"name": "web", "arrival": arrival}]}
    writer = report_runs.Writer(tmp_path / "run.db", 20, command="compare", spec=spec)
    trial_id = writer.recorder.add_trial(kind="compare", title="it", change={})
    for pair in range(1, 3):
        for side in "ab":
            writer.left = 5 + (1000 if side == "b" else 0)
            with writer.slice("trial", trial_id=trial_id, pair=pair, side=side):
                writer.second(report_runs.Level(5000, 1.0))
    run = RunFile(writer.finish())
    ratios = pair_ratios(run, trial_id, "throughput")
    for ratio, (a, b) in zip(ratios.values(), run.pairs(trial_id), strict=True):
        done = throughput_tps(run, [b.id]) / throughput_tps(run, [a.id])
        assert ratio / done == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize(
    ("in_force", "least"),
    [(None, "35s"), ({"wal_writer_delay": "200ms"}, "35s"), ({"wal_writer_delay": "1s"}, "130s")],
)
def test_a_budget_is_refused_with_the_least_that_works_on_a_server_of_theirs(
    in_force: dict[str, str] | None, least: str
) -> None:
    spec = spec_from_fields({"server": {"kind": "existing", "conninfo": "host=db"}})
    change = Change(settings={"synchronous_commit": "off"})
    with pytest.raises(UsageError) as caught:
        check_budget(spec, change, budget_ms=30_000, slice_ms=None, in_force=in_force)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f"--budget {least}")
    enough_ms = int(least.removesuffix("s")) * 1000
    check_budget(spec, change, budget_ms=enough_ms, slice_ms=None, in_force=in_force)
