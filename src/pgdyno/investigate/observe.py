"""The run of a spec with its diagnosis, for ``pgdyno run``."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.conduct import Session, carry_out
from pgdyno.diagnose import Finding, diagnose, too_short
from pgdyno.investigate._proposals import may_be_proposed
from pgdyno.remedy import catalogue
from pgdyno.results import store
from pgdyno.results.run import RunResult
from pgdyno.spec.durability import DurabilityClass, severity
from pgdyno.trial.result import run_result


def observe(session: Session) -> RunResult:
    """Run the session's spec, diagnose it, and record the findings and the result.

    A void slice decides nothing and is not diagnosed, nor is a run that is too short.
    """
    slice_ids = carry_out(session)
    run = session.reader()
    void = any(run.slice(slice_id).void for slice_id in slice_ids)
    undecided = void or too_short(run, slice_ids)
    findings = [] if undecided else list(record_diagnosis(session, slice_ids, step=0).values())
    result = run_result(session.reader(), slice_ids, findings)
    store(session.recorder, result)
    return result


def record_diagnosis(
    session: Session, slice_ids: list[int], *, step: int, allow: DurabilityClass = "D0"
) -> dict[int, Finding]:
    """Diagnose the slices and record the findings; return them by row id, in the diagnosis's
    order."""
    diagnosed = diagnose(session.reader(), slice_ids, step=step)
    findings = [_safer_first(finding, allow) for finding in diagnosed]
    return {session.recorder.add_finding(finding.to_row()): finding for finding in findings}


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
    return replace(finding, proposals=tuple(proposals))
