"""Remedies that keep the server from failing: tried first, for harm only, and not undone later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from inline_snapshot import snapshot

from pgdyno.investigate._proposals import (
    ProposalLimits,
    assessed_proposals,
    guarded_settings,
    obstacle,
)
from pgdyno.investigate._trials import decision_of
from pgdyno.record.finding import Finding, Proposal
from pgdyno.remedy import catalogue
from pgdyno.report.words.sentences import prediction
from pgdyno.spec import Change, spec_from_fields

SMALL = Change(settings={"max_wal_size": "272MB"})
FILLING = Finding(
    id="disk-filling",
    status="found",
    sentence="the disk of the WAL is full in 9 s",
    rank=2,
    proposals=(
        Proposal(
            remedy_id="wal-within-disk",
            change=SMALL,
            predicted_ratio=1.0,
            why="a checkpoint would remove WAL",
        ),
    ),
)
LARGE = Change(settings={"max_wal_size": "8GB", "checkpoint_timeout": "15min"})
STORM = Finding(
    id="checkpoint-fpi",
    status="found",
    sentence="images fill the WAL",
    rank=1,
    proposals=(
        Proposal(
            remedy_id="checkpoint-distance",
            change=LARGE,
            predicted_ratio=1.6,
            why="rarer checkpoints",
        ),
        Proposal(
            remedy_id="wal-compression",
            change=Change(settings={"wal_compression": "on"}),
            predicted_ratio=1.01,
            why="smaller",
        ),
    ),
)


def test_what_guards_the_server_comes_first_though_it_buys_nothing() -> None:
    found = assessed_proposals([STORM, FILLING], Change(), spec_from_fields({}))
    assert [each.remedy.id for each in found] == ["wal-within-disk", "checkpoint-distance"]
    assert assessed_proposals([FILLING], SMALL, spec_from_fields({})) == [], "it is in force"


def test_no_other_remedy_may_change_what_a_guard_holds() -> None:
    held = guarded_settings(assessed_proposals([STORM, FILLING], Change(), spec_from_fields({})))
    assert held == snapshot(
        {"max_wal_size": "not measured: max_wal_size = 272MB is needed because of disk-filling"}
    )


@pytest.mark.parametrize(
    ("outcome", "decision"),
    [
        ("no difference", "kept"),
        ("inconclusive", "kept"),
        ("better", "kept"),
        ("worse", "offered"),
    ],
)
def test_it_is_kept_unless_it_costs_something(outcome: str, decision: str) -> None:
    (guard,) = assessed_proposals([FILLING], Change(), spec_from_fields({}))
    answer: Any = SimpleNamespace(verdict=SimpleNamespace(outcome=outcome))
    assert decision_of(guard, answer, may_keep=True) == decision
    assert decision_of(guard, answer, may_keep=False) == "offered"


def test_a_promise_that_is_no_throughput() -> None:
    def predicted(remedy: str, ratio: float, load: str = "", response: float | None = None) -> str:
        proposal = Proposal(
            remedy_id=remedy,
            change=Change(),
            predicted_ratio=ratio,
            predicted_response_ratio=response,
            why="",
        )
        return prediction(catalogue()[remedy], proposal, load)

    assert predicted("wal-within-disk", 1.0) == catalogue()["wal-within-disk"].summary
    assert predicted("commit-delay", 1.25, " at full load") == snapshot(
        "predicted 1.2x at full load"
    )
    assert predicted("client-count", 1.0, response=0.5) == snapshot(
        "predicted 1.0x, response time 0.50x"
    )


def test_tables_of_a_users_server_are_not_altered() -> None:
    loose = Change(table_options={"pgbench_accounts": {"fillfactor": "80"}})
    finding = Finding(
        id="server-cpu",
        status="found",
        sentence="updates move to another page",
        rank=1,
        proposals=(
            Proposal(
                remedy_id="fillfactor", change=loose, predicted_ratio=1.5, why="room on the page"
            ),
        ),
    )
    (candidate,) = assessed_proposals([finding], Change(), spec_from_fields({}))
    bounds = ProposalLimits(allow="D3", may_apply=True)
    theirs: Any = SimpleNamespace(target=SimpleNamespace(ours=False))
    assert obstacle(candidate, theirs, bounds) == snapshot(
        "not measured: it alters tables, and tables of this server are not altered"
    )
    ours: Any = SimpleNamespace(target=SimpleNamespace(ours=True))
    assert obstacle(candidate, ours, bounds) is None
