"""One run with its diagnosis: what ``pgdyno run`` does."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.conduct import Session, carry_out
from pgdyno.diagnose import Finding, diagnose
from pgdyno.investigate._choose import may_be_proposed
from pgdyno.remedy import catalogue
from pgdyno.results import store
from pgdyno.results.run import RunResult
from pgdyno.spec.durability import DurabilityClass, severity
from pgdyno.trial.result import run_result


def observe(session: Session) -> RunResult:
    """Carry the session's spec out, diagnose it, record findings and result.

    Of a void slice nothing is found: it decides nothing.
    """
    slice_ids = carry_out(session)
    void = any(session.reader().slice(slice_id).void for slice_id in slice_ids)
    findings = [] if void else list(record_diagnosis(session, slice_ids, step=0).values())
    result = run_result(session.reader(), slice_ids, findings)
    store(session.recorder, result)
    return result


def record_diagnosis(
    session: Session, slice_ids: list[int], *, step: int, allow: DurabilityClass = "D0"
) -> dict[int, Finding]:
    """Diagnose the slices and write the findings into the run file; the findings by row id there,
    in the diagnosis's order."""
    diagnosed = diagnose(session.reader(), slice_ids, step=step)
    findings = [_safer_first(finding, allow) for finding in diagnosed]
    return {session.recorder.add_finding(finding.to_row()): finding for finding in findings}


def _safer_first(finding: Finding, allow: DurabilityClass) -> Finding:
    """The same with the proposals that may be made, by durability class; within a class the best
    predicted first."""
    remedies = catalogue()
    proposals = sorted(
        (each for each in finding.proposals if may_be_proposed(each, allow)),
        key=lambda each: (
            severity(remedies[each.remedy_id].durability_class),
            -each.predicted_ratio,
        ),
    )
    return replace(finding, proposals=tuple(proposals))
