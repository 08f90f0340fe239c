"""``pgdyno run``: a spec carried out once, with its diagnosis."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.conduct import Session, carry_out, check_tables
from pgdyno.diagnose import Diagnosis, Finding, diagnose, refusals, too_short
from pgdyno.investigate._proposals import may_be_proposed
from pgdyno.remedy import catalogue
from pgdyno.results import store
from pgdyno.results.run import RunResult
from pgdyno.spec.durability import DurabilityClass, severity
from pgdyno.trial.result import no_database, run_result


def run_spec(session: Session, around: AbstractContextManager[None] | None = None) -> RunResult:
    """Run the session's spec, diagnose it, and record the findings and the result.

    ``around`` is entered for the load, such as a governor of it.
    A void slice decides nothing and is not diagnosed, nor is a run that is too short; but who
    refused the clients of a void slice is said, if that is known.
    """
    with around or nullcontext():
        slice_ids = carry_out(session)
    check_tables(session)
    result = diagnosed(session, slice_ids)
    store(session.recorder, result)
    return result


def diagnosed(session: Session, slice_ids: list[int]) -> RunResult:
    """Diagnose these slices of a run, record the findings, and return the result, not recorded."""
    run = session.reader()
    void = any(run.slice(slice_id).void for slice_id in slice_ids)
    undecided = void or no_database(run) or too_short(run, slice_ids)
    recorded = None if undecided else record_diagnosis(session, slice_ids, step=0)
    refused = _record_refusals(session, slice_ids) if void else []
    diagnosis = recorded.diagnosis if recorded else None
    return run_result(session.reader(), slice_ids, diagnosis, refused)


def _record_refusals(session: Session, slice_ids: list[int]) -> list[Finding]:
    found = refusals(session.reader(), slice_ids)
    for finding in found:
        session.recorder.add_finding(finding)
    return found


class RecordedDiagnosis(Struct, frozen=True):
    """A diagnosis with the row ids of its findings in the run file."""

    diagnosis: Diagnosis
    rows: dict[int, Finding]
    """In the order of the diagnosis."""


def record_diagnosis(
    session: Session, slice_ids: list[int], *, step: int, allow: DurabilityClass = "D0"
) -> RecordedDiagnosis:
    """Diagnose the slices and record the findings."""
    diagnosis = diagnose(session.reader(), slice_ids, step=step)
    findings = [_safer_first(finding, allow) for finding in diagnosis.findings]
    rows = {session.recorder.add_finding(finding): finding for finding in findings}
    return RecordedDiagnosis(replace(diagnosis, findings=findings), rows)


def _safer_first(finding: Finding, allow: DurabilityClass) -> Finding:
    """Return the finding with the proposals that are permitted, ordered by durability class, then
    by predicted gain."""
    remedies = catalogue()
    proposals = sorted(
        (each for each in finding.proposals if may_be_proposed(each, allow)),
        key=lambda each: (
            severity(remedies[each.remedy_id].durability_class),
            -each.predicted_ratio,
        ),
    )
    return finding.model_copy(update={"proposals": tuple(proposals)})
