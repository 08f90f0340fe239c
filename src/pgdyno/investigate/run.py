"""``pgdyno run``: a spec carried out once, with its diagnosis."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from pgdyno.conduct import Session, carry_out, check_tables
from pgdyno.facts.periods import too_short
from pgdyno.results import store
from pgdyno.results.run import RunResult
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
    if not void and (no_database(run) or too_short(run, slice_ids)):
        return run_result(run, slice_ids, None)
    from pgdyno.investigate._diagnosing import record_diagnosis, record_refusals

    if void:
        refused = record_refusals(session, slice_ids)
        return run_result(session.reader(), slice_ids, None, refused)
    diagnosis = record_diagnosis(session, slice_ids, step=0).diagnosis
    return run_result(session.reader(), slice_ids, diagnosis)
