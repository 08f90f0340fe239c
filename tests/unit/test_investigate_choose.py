"""The order in which remedies are tried and listed: what may lose less stands before what may lose
more, for the same finding."""

from __future__ import annotations

import pytest

from pgdyno.investigate._diagnosing import _safer_first
from pgdyno.investigate._proposals import assessed_proposals
from pgdyno.record.finding import Finding, Proposal
from pgdyno.spec import Change, spec_from_fields
from pgdyno.spec.durability import DurabilityClass

SYNC_OFF = Proposal(
    remedy_id="synchronous-commit-off",
    change=Change(settings={"synchronous_commit": "off"}),
    predicted_ratio=1.7,
    why="",
)
DELAY = Proposal(
    remedy_id="commit-delay",
    change=Change(settings={"commit_delay": "100"}),
    predicted_ratio=1.1,
    why="",
)
FPW = Proposal(
    remedy_id="full-page-writes-off",
    change=Change(settings={"full_page_writes": "off"}),
    predicted_ratio=2.5,
    why="",
)
FSYNC = Proposal(
    remedy_id="fsync-off", change=Change(settings={"fsync": "off"}), predicted_ratio=2.1, why=""
)
POOL = Proposal(
    remedy_id="pool-size", change=Change(pool_max={"web": 16}), predicted_ratio=1.3, why=""
)


def found(name: str, *proposals: Proposal) -> Finding:
    return Finding(id=name, status="found", sentence="", proposals=proposals)


def test_the_remedy_of_a_lower_class_is_tried_first_for_the_same_finding() -> None:
    flush = found("commit-flush", SYNC_OFF, DELAY)
    ids = [each.remedy.id for each in assessed_proposals([flush], Change(), spec_from_fields({}))]
    assert ids == ["commit-delay", "synchronous-commit-off"]


def test_between_findings_the_larger_gain_still_comes_first() -> None:
    """What gains little does not move up for what it must stand before."""
    findings = [found("commit-flush", SYNC_OFF, DELAY), found("client-pool", POOL)]
    ids = [each.remedy.id for each in assessed_proposals(findings, Change(), spec_from_fields({}))]
    assert ids == ["pool-size", "commit-delay", "synchronous-commit-off"]


def test_what_may_lose_more_comes_first_only_if_it_certainly_gains_more() -> None:
    def ids(high: float) -> list[str]:
        pool = POOL.model_copy(update={"predicted_interval": (1.1, high)})
        findings = [found("commit-flush", SYNC_OFF), found("client-pool", pool)]
        tried = assessed_proposals(findings, Change(), spec_from_fields({}))
        return [each.remedy.id for each in tried]

    assert ids(1.6) == ["synchronous-commit-off", "pool-size"]
    assert ids(1.8) == ["pool-size", "synchronous-commit-off"]


@pytest.mark.parametrize(("allow", "listed"), [("D0", False), ("D2", False), ("D3", True)])
def test_what_may_lose_all_is_proposed_only_where_it_is_allowed(
    allow: DurabilityClass, listed: bool
) -> None:
    flush = _safer_first(found("commit-flush", SYNC_OFF, FSYNC), allow)
    assert ("fsync-off" in {each.remedy_id for each in flush.proposals}) is listed
    tried = [each.remedy.id for each in assessed_proposals([flush], Change(), spec_from_fields({}))]
    assert ("fsync-off" in tried) is listed


def test_the_list_of_a_finding_is_in_the_same_order() -> None:
    listed = _safer_first(found("checkpoint-fpi", FPW, SYNC_OFF, DELAY), "D0").proposals
    assert [each.remedy_id for each in listed] == [
        "commit-delay",
        "synchronous-commit-off",
        "full-page-writes-off",
    ]
