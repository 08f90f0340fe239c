"""Apply all signatures to slices of a run and rank their findings.

Ranking: every finding has a share of the mean response time (each wait is counted once, see
``_latency_budget``), and the model predicts the part of the response time that removing its limit
would save. Findings are ranked by the product, so that neither a large wait that cannot be
shortened nor a small one that is easy to remove comes first. A finding that makes all others
doubtful comes before them.
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


def diagnose(run: RunFile, slice_ids: list[int], *, step: int = 0) -> list[Finding]:
    """Return the findings on ``slice_ids``, slices under one change, taken together.

    Findings come first, rank 1 being the limit; then the checks that were cleared; then those that
    could not be made. The caller decides which proposals are allowed.
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
            replace(
                finding,
                rank=rank,
                causes=causes,
                proposals=_not_yet_proposed(finding.proposals, seen),
            )
        )
    others = sorted((f for f in answers if f.status != "found"), key=lambda f: f.status)
    return [replace(finding, step=step) for finding in (*ranked, *others)]


def verdict(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the first finding's id and sentence; the id is ``nothing-found`` if there is none."""
    for finding in findings:
        if finding.rank == 1:
            return {"finding": finding.id, "sentence": finding.sentence}
    return {"finding": NOTHING, "sentence": "no check found a bottleneck"}


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
        weight=1.0 if answer.spoils else share * min(1.0, max(0.0, answer.liftable)),
    )


def _not_yet_proposed(
    proposals: Iterable[Proposal], seen: list[tuple[str, dict[str, Any]]]
) -> tuple[Proposal, ...]:
    """Return the proposals that no finding of a higher rank makes, and add them to ``seen``."""
    kept = []
    for proposal in proposals:
        key = (proposal.remedy_id, proposal.change.to_json())
        if key not in seen:
            seen.append(key)
            kept.append(proposal)
    return tuple(kept)
