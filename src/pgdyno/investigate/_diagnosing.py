"""Diagnoses of a session's slices, with their findings recorded in the run file."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.conduct import Session
from pgdyno.conduct.plan_look import look_at_plans
from pgdyno.diagnose import Diagnosis, Finding, diagnose, refusals
from pgdyno.investigate._proposals import may_be_proposed
from pgdyno.remedy import risk_of
from pgdyno.spec.durability import DurabilityClass


class RecordedDiagnosis(Struct, frozen=True):
    """A diagnosis with the row ids of its findings in the run file."""

    diagnosis: Diagnosis
    rows: dict[int, Finding]
    """In the order of the diagnosis."""


def record_diagnosis(
    session: Session, slice_ids: list[int], *, step: int, allow: DurabilityClass = "D0"
) -> RecordedDiagnosis:
    """Look at the plans of the slices' statements, diagnose the slices and record the findings."""
    look_at_plans(session, slice_ids)
    diagnosis = diagnose(session.reader(), slice_ids, step=step)
    findings = [_safer_first(finding, allow) for finding in diagnosis.findings]
    rows = {session.recorder.add_finding(finding): finding for finding in findings}
    return RecordedDiagnosis(replace(diagnosis, findings=findings), rows)


def record_refusals(session: Session, slice_ids: list[int]) -> list[Finding]:
    """Record and return the findings that say who refused clients, of void slices."""
    found = refusals(session.reader(), slice_ids)
    for finding in found:
        session.recorder.add_finding(finding)
    return found


def _safer_first(finding: Finding, allow: DurabilityClass) -> Finding:
    """Return the finding with the proposals that are permitted, ordered by durability class, then
    by predicted gain."""
    proposals = sorted(
        (each for each in finding.proposals if may_be_proposed(each, allow)),
        key=lambda each: (risk_of(each.remedy_id), -each.predicted_ratio),
    )
    return finding.model_copy(update={"proposals": tuple(proposals)})
