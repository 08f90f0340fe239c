"""The order in which remedies are tried and listed: what may lose less stands before what may lose
more, for the same finding."""

from __future__ import annotations

from pgdyno.diagnose.finding import Finding, Proposal
from pgdyno.investigate.choose import candidates
from pgdyno.investigate.observe import _safer_first
from pgdyno.spec import Change, spec_from_fields

SYNC_OFF = Proposal(
    "synchronous-commit-off", Change(settings={"synchronous_commit": "off"}), 1.7, ""
)
DELAY = Proposal("commit-delay", Change(settings={"commit_delay": "100"}), 1.1, "")
FPW = Proposal("full-page-writes-off", Change(settings={"full_page_writes": "off"}), 2.5, "")
POOL = Proposal("pool-size", Change(pool_max={"web": 16}), 1.3, "")


def found(name: str, *proposals: Proposal) -> Finding:
    return Finding(name, "found", "", proposals=proposals)


def test_the_remedy_of_a_lower_class_is_tried_first_for_the_same_finding() -> None:
    flush = found("commit-flush", SYNC_OFF, DELAY)
    ids = [each.remedy.id for each in candidates([flush], Change(), spec_from_fields({}))]
    assert ids == ["commit-delay", "synchronous-commit-off"]


def test_between_findings_the_larger_gain_still_comes_first() -> None:
    findings = [found("commit-flush", SYNC_OFF, DELAY), found("client-pool", POOL)]
    ids = [each.remedy.id for each in candidates(findings, Change(), {"web": 2})]
    assert ids == ["commit-delay", "pool-size", "synchronous-commit-off"]


def test_the_list_of_a_finding_is_in_the_same_order() -> None:
    listed = _safer_first(found("checkpoint-fpi", FPW, SYNC_OFF, DELAY)).proposals
    assert [each.remedy_id for each in listed] == [
        "commit-delay",
        "synchronous-commit-off",
        "full-page-writes-off",
    ]
