"""The procedure of ``pgdyno knee``: the search, its diagnosis recorded, and its result."""

from __future__ import annotations

from msgspec.structs import replace

from pgdyno.conduct import Session
from pgdyno.diagnose import Diagnosis, Finding
from pgdyno.knee.capacity import Request, find_capacity
from pgdyno.results import store
from pgdyno.results.knee import KneeResult
from pgdyno.trial.result import head


def find_knee(session: Session, request: Request) -> KneeResult:
    """Find how much the server takes; record and return the result."""
    answer = find_capacity(session, request)
    session.stop_load()
    findings = _recorded(session, answer.diagnosis)
    result = KneeResult(
        **dict(head(session.reader(), findings, no_verdict=answer.no_answer)),
        **dict(answer.capacity),
    )
    store(session.recorder, result)
    return result


def _recorded(session: Session, diagnosis: Diagnosis | None) -> list[Finding]:
    """Record the findings, without proposals: nothing is tried here."""
    found = diagnosis.findings if diagnosis else []
    for finding in found:
        session.recorder.add_finding(replace(finding, proposals=()).to_row())
    return found
