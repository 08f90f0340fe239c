"""Proof of a finding by the trial of its remedy, decisions, and the trial of everything kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.dimension import fields_with
from pgdyno.investigate._outcome import _verdict
from pgdyno.investigate._progress import AnsweredTrial, Kept, Progress, Undecided, with_kept
from pgdyno.investigate._proposals import AssessedProposal, assessed_proposals
from pgdyno.investigate._times import TimeBudget
from pgdyno.investigate._trials import (
    decision_of,
    proof_of,
    recheck_decision_of,
    recheck_question,
    remedy_question,
    total_question,
)
from pgdyno.record.finding import Finding, Proposal
from pgdyno.remedy import assess, catalogue, circumstances
from pgdyno.spec import Change, spec_from_fields
from pgdyno.stats import PairedEffect
from pgdyno.stats.prediction import as_predicted, tolerated
from pgdyno.trial.pairs import Matters
from pgdyno.trial.question import Question

SPEC = spec_from_fields({"clients": [{"name": "web", "count": 8, "pool": {"max": 2}}]})
SERVER = circumstances(SPEC)


def proposal(predicted: float = 1.5, *, specific: bool = True, pool: int = 4) -> AssessedProposal:
    made = Proposal(
        remedy_id="pool-size",
        change=Change(pool_max={"web": pool}),
        predicted_ratio=predicted,
        why="",
        specific=specific,
    )
    finding = Finding(id="client-pool", status="found", sentence="", proposals=(made,))
    (assessed,) = assessed_proposals([finding], Change(), SPEC)
    return assessed


def answer(
    lo: float, ratio: float, hi: float, *, outcome: str = "better", measure: str = "throughput"
) -> Any:
    effect = PairedEffect(ratio, lo, hi, 6, 0.1)
    return SimpleNamespace(
        throughput=effect,
        latency_p99=PairedEffect(1.0, 0.95, 1.05, 6, 0.1),
        measure=measure,
        verdict=SimpleNamespace(outcome=outcome),
        matters=Matters(),
        p99_is_shorter=False,
        gain=numbers.ratio(ratio),
    )


@pytest.mark.parametrize(
    ("specific", "measured", "status"),
    [
        (True, (1.4, 1.5, 1.6), "proved"),
        (True, (2.2, 2.3, 2.4), "helped"),  # more than twice the predicted effect
        (True, (1.4, 2.3, 3.5), "helped"),  # a wide interval contains any prediction
        (True, (1.08, 1.1, 1.12), "helped"),  # less than half of it
        (False, (1.4, 1.5, 1.6), "helped"),
    ],
)
def test_only_a_specific_remedy_with_the_predicted_effect_proves(
    specific: bool, measured: tuple[float, float, float], status: str
) -> None:
    proof = proof_of(proposal(specific=specific), answer(*measured))
    assert proof is not None
    assert proof.status == status


def test_no_effect_and_p99_alone_prove_nothing() -> None:
    nothing = answer(0.98, 1.0, 1.02, outcome="no difference")
    assert proof_of(proposal(), nothing) is None
    latency = answer(0.99, 1.0, 1.01, measure="latency_p99")
    proof = proof_of(proposal(), latency)
    assert proof is not None
    assert proof.status == "helped"


def test_a_proposal_is_not_specific_unless_it_says_so() -> None:
    assert not Proposal(
        remedy_id="fsync-off", change=Change(settings={"fsync": "off"}), predicted_ratio=2.0, why=""
    ).specific


def test_the_tolerance_is_the_same_on_both_sides() -> None:
    low, high = tolerated(2.0)
    assert (low, high) == (pytest.approx(2**0.5), 4.0)
    assert tolerated(0.5) == (pytest.approx(0.25), pytest.approx(2**-0.5))
    assert not as_predicted(PairedEffect(1.0, 0.9, 1.1, 6, 0.1), 1.0)


@pytest.mark.parametrize(
    ("predicted", "measured", "met"),
    [
        (1.14, (1.07, 2.35, 5.22), False),  # contained by a wide interval
        (1.14, (1.07, 1.2, 1.34), True),  # within the tolerance
        (1.02, (1.018, 1.045, 1.073), True),  # contained by a precise one
        (1.02, (1.01, 1.06, 1.113), False),
        (0.5, (0.2, 0.24, 0.51), False),
        (1.02, (0.99, 1.015, 1.04), False),  # may be no effect
    ],
)
def test_an_interval_that_contains_the_prediction_must_be_precise(
    predicted: float, measured: tuple[float, float, float], met: bool
) -> None:
    lo, ratio, hi = measured
    assert as_predicted(PairedEffect(ratio, lo, hi, 6, 0.1), predicted) is met


@pytest.mark.parametrize("may_keep", [True, False])
def test_an_inconclusive_trial_rejects_nothing(may_keep: bool) -> None:
    undecided = answer(0.9, 1.1, 1.3, outcome="inconclusive")
    assert decision_of(proposal(), undecided, may_keep=may_keep) == "inconclusive"
    assert recheck_decision_of(undecided) == "inconclusive"


def test_an_effect_too_small_to_matter_is_rejected_and_taken_back() -> None:
    nothing = answer(0.98, 1.0, 1.02, outcome="no difference")
    assert decision_of(proposal(), nothing, may_keep=True) == "rejected"
    assert recheck_decision_of(nothing) == "taken back"


def progress_of(*pools: int) -> Progress:
    """Pools kept one after another, each tried on top of those before it."""
    progress = Progress()
    for size in pools:
        tried = proposal(pool=size)
        question = remedy_question(tried, progress.state, slice_s=1.0, step=1)
        progress.trials.append(AnsweredTrial(question, answer(1.4, 1.5, 1.6)))
        progress.kept = with_kept(progress.kept, Kept(tried, answer(1.4, 1.5, 1.6)))
    return progress


def headline_of(progress: Progress, total: Any) -> str:
    question = total_question([each.proposal for each in progress.kept], SERVER, slice_s=1.0)
    progress.trials.append(AnsweredTrial(question, total))
    return _verdict(progress, None, fields_with(SPEC, Change())).sentence


def test_a_headline_names_what_was_measured() -> None:
    total = answer(3.9, 4.29, 4.7)
    said = headline_of(progress_of(8, 16), total)
    assert said.startswith("pool 2 → 16 gives 4.29x [3.90, 4.70]; next limit:")


def test_a_headline_names_all_that_is_kept_and_nothing_that_was_replaced() -> None:
    progress = progress_of(8)
    progress.kept[0] = Kept(
        replace(progress.kept[0].proposal, remedy=catalogue()["client-count"]),
        answer(1.4, 1.5, 1.6),
    )
    progress.kept.append(Kept(proposal(pool=16), answer(1.4, 1.5, 1.6)))
    said = headline_of(progress, answer(3.9, 4.29, 4.7))
    assert said.startswith("pool 2 → 16 gives 4.29x")
    setting = replace(
        proposal(), assessment=assess(Change(settings={"commit_delay": "100"}), SERVER)
    )
    progress.kept.append(Kept(setting, answer(1.1, 1.2, 1.3)))
    said = headline_of(progress, answer(3.9, 4.29, 4.7))
    names, _, _ = said.partition(" together give ")
    assert {*names.split(", ")} == {"pool 2 → 16", "commit_delay = 100us"}


def test_the_trial_of_the_only_kept_change_is_that_of_everything() -> None:
    progress = progress_of(4)
    assert progress.trial_of_everything() is progress.trials[0]


def test_a_value_that_was_tried_on_another_state_needs_a_trial_of_its_own() -> None:
    progress = progress_of(4, 8)
    assert len(progress.kept) == 1
    assert progress.trial_of_everything() is None
    kept = [each.proposal for each in progress.kept]
    question = total_question(kept, circumstances(SPEC), slice_s=1.0)
    assert (question.a.to_json(), question.b.to_json()) == ({}, {"pool_max": {"web": 8}})
    progress.trials.append(AnsweredTrial(question, answer(2.0, 2.2, 2.4)))
    assert progress.trial_of_everything() is progress.trials[-1]


def test_a_budget_that_cannot_hold_a_trial_says_how_much_would() -> None:
    question = remedy_question(proposal(), Change(), slice_s=60.0, step=1)
    assert TimeBudget(60.0).minutes_beyond(question) in range(12, 16)
    assert TimeBudget(3600.0).minutes_beyond(question) is None


def test_the_time_of_rearranging_is_learned() -> None:
    times = TimeBudget(3600.0)
    plain = remedy_question(proposal(), Change(), slice_s=2.0, step=1)
    assert plain.assessment is not None
    restarts = replace(plain, assessment=replace(plain.assessment, needs=("restart",)))
    before = [times.trial_s([each]) for each in (restarts, plain)]
    times.learn(plain, 0.1)
    assert [times.trial_s([each]) for each in (restarts, plain)] == before
    times.learn(restarts, restarts.pair_seconds / 2)
    assert times.trial_s([restarts]) == pytest.approx(before[0] / 2)
    assert times.trial_s([plain]) == before[1]


def undecided_of(question: Question, pairs_needed: int | None) -> Undecided:
    """An inconclusive trial that can be extended."""
    open_answer = answer(0.9, 1.1, 1.3, outcome="inconclusive")
    open_answer.verdict.pairs_needed = pairs_needed
    open_answer.can_resume = True
    return Undecided(proposal(pool=8), AnsweredTrial(question, open_answer))


def test_trials_about_the_final_state_are_extended_the_nearest_to_a_decision_first() -> None:
    progress = progress_of(4)
    stale = remedy_question(proposal(pool=8), Change(), slice_s=1.0, step=1)
    current = remedy_question(proposal(pool=8), progress.state, slice_s=1.0, step=2)
    wanted = {1: (stale, 3), 2: (current, None), 3: (current, 20), 4: (current, 5)}
    progress.undecided = {n: undecided_of(*each) for n, each in wanted.items()}
    assert list(progress.resumable()) == [4, 3, 2]


def test_a_recheck_is_about_the_state_with_the_change() -> None:
    progress = progress_of(4)
    asked = remedy_question(proposal(pool=4), progress.state, slice_s=1.0, step=1)
    question = recheck_question(progress.kept[0], [], asked)
    progress.undecided = {0: undecided_of(question, 4)}
    assert list(progress.resumable()) == [0]
    progress.kept = []
    assert not progress.resumable()
