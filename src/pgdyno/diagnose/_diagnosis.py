"""The ranked findings of a period of a run, from all signatures.

Ranking: every finding owns a share of the mean response time (each wait is counted once, see
``budget``), and the model says what part of the response would go if its limit were lifted.
Findings are ranked by the product, so that neither a large wait that nothing can shorten nor a
small one that can be had for free comes first. A finding that makes all others doubtful comes
before them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgdyno.diagnose._signature import Found, Signature, signatures
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Finding, Proposal, Skip

if TYPE_CHECKING:
    from pgdyno.record import RunFile

NOTHING = "nothing-found"
SECONDS_MIN = 1
"""Shortest period that is diagnosed: the probes read the server's views once a second."""
_SLACK_S = 0.05
"""Time by which a period may be shorter than requested."""


def diagnose(run: RunFile, slice_ids: list[int], *, step: int = 0) -> list[Finding]:
    """Return findings on ``slice_ids``, slices under one change, taken as one period.

    Found first, rank 1 being the limit; then what was checked and cleared; then what could not be
    checked. Which proposals are allowed is for those to say who choose among them.
    """
    situation = Situation(run, slice_ids)
    answers = [_answer(signature, situation) for signature in signatures()]
    found = sorted((f for f in answers if f.status == "found"), key=lambda f: -f.weight)
    ids = {finding.id for finding in found}
    seen: list[tuple[str, dict[str, Any]]] = []
    ranked = []
    for rank, finding in enumerate(found, start=1):
        causes = tuple(cause for cause in finding.causes if cause in ids)
        ranked.append(
            replace(finding, rank=rank, causes=causes, proposals=_unseen(finding.proposals, seen))
        )
    others = sorted((f for f in answers if f.status != "found"), key=lambda f: f.status)
    return [replace(finding, step=step) for finding in (*ranked, *others)]


def too_short(run: RunFile, slice_ids: list[int]) -> str | None:
    """Return the reason if the slices are too short for a diagnosis, else None."""
    seconds = run.seconds(slice_ids)
    if seconds >= SECONDS_MIN - _SLACK_S:
        return None
    return f"{seconds:.2g} s measured, {SECONDS_MIN} s is needed"


def verdict(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the first finding's ID and sentence, or ``nothing-found``."""
    for finding in findings:
        if finding.rank == 1:
            return {"finding": finding.id, "sentence": finding.sentence}
    return {"finding": NOTHING, "sentence": "none of the checks found a bottleneck"}


def _answer(signature: Signature, situation: Situation) -> Finding:
    try:
        answer = signature.examine(situation)
    except Skip as reason:
        return Finding(signature.id, "skipped", f"not checked: {reason}")
    if not isinstance(answer, Found):
        return Finding(signature.id, "cleared", answer.sentence, evidence=tuple(answer.evidence))
    share = min(1.0, max(0.0, answer.share))
    return Finding(
        id=signature.id,
        status="found",
        sentence=answer.sentence,
        confidence=answer.confidence,
        evidence=tuple(answer.evidence),
        false_positives=signature.false_positives,
        causes=tuple(answer.causes),
        proposals=tuple(sorted(answer.proposals, key=lambda p: -p.predicted_ratio)),
        share=share,
        weight=1.0 if answer.causes_distrust else share * min(1.0, max(0.0, answer.liftable)),
    )


def _unseen(
    proposals: Iterable[Proposal], seen: list[tuple[str, dict[str, Any]]]
) -> tuple[Proposal, ...]:
    """Return proposals that no higher-ranked finding has made; add them to ``seen``."""
    kept = []
    for proposal in proposals:
        key = (proposal.remedy_id, proposal.change.to_json())
        if key not in seen:
            seen.append(key)
            kept.append(proposal)
    return tuple(kept)
