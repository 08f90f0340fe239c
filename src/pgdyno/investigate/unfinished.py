"""The JSON of a command without a result: the error that ended it, and the measurements before it.

It is made from the run file alone, so that the command itself and a later ``pgdyno show`` print the
same. Its schema is ``docs/reference/result-unfinished.schema.json``.
"""

from __future__ import annotations

from pgdyno.errors import Ending
from pgdyno.facts.failures import failures
from pgdyno.json_types import Json
from pgdyno.record import DrillRow, RunFile, throughput_tps
from pgdyno.record import Slice as SliceRow
from pgdyno.record import Trial as TrialRow
from pgdyno.record.incidents import incidents
from pgdyno.record.plain import plain
from pgdyno.results import recorded_json
from pgdyno.results.common import SCHEMA_VERSION
from pgdyno.results.unfinished import Drill, Error, Slice, Trial, Unfinished
from pgdyno.trial.result import error_counts, failures_of, whole_ledger


def without_run(command: str | None, ending: Ending) -> Unfinished:
    """Return the JSON of a command that ended before it began to record a run."""
    return Unfinished(**_head(command, None, "failed", error_of(ending)))


def unfinished(run: RunFile) -> Unfinished:
    """Return the JSON of a run that failed, was interrupted, or is still running."""
    info = run.run
    return Unfinished(
        **_head(info.command, str(run.path), info.status, _error(run)),
        incidents=incidents(run),
        failures=failures_of(failures(run, None)),
        errors=error_counts(run),
        ledger=whole_ledger(run),
        slices=tuple(_slice(run, each) for each in run.slices()),
        trials=tuple(_trial(run, each) for each in run.trials()),
        drills=tuple(_drill(run, each) for each in run.drills()),
        so_far=recorded_json(run) or None,
    )


def recorded_result(run: RunFile) -> Json:
    """Return the JSON of a run's result, or of an unfinished run's measurements."""
    if run.run.status == "done":
        return recorded_json(run)
    result: Json = plain(unfinished(run).to_json())
    return result


def error_of(ending: Ending) -> Error:
    """Return the error that ended a command, as results have it."""
    return Error.model_validate(ending.to_json())


def _head(
    command: str | None, run_file: str | None, status: str, error: Error | None
) -> dict[str, object]:
    """Return the members that are known without a run."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "run_file": run_file,
        "status": status,
        "verdict": None,
        "error": error,
    }


def _error(run: RunFile) -> Error | None:
    """Return the error that ended the run: as recorded, or that it was killed; ``None`` if it is
    still running."""
    if endings := run.events("ending"):
        return Error.model_validate(endings[-1].detail)
    if run.run.status == "running":
        return None
    return Error(
        exit_status=None, code=run.run.status, message=run.run.status_detail or "", hint=None
    )


def _slice(run: RunFile, each: SliceRow) -> Slice:
    ledger = run.ledger([each.id])
    return Slice(
        kind=each.kind,
        trial=each.trial_id,
        pair=each.pair,
        side=each.side,
        ended=each.ended_ms is not None,
        void=each.void,
        seconds=round(run.seconds([each.id]), 3),
        done=ledger.done,
        failed=ledger.failed,
        throughput_tps=round(throughput_tps(run, [each.id]), 2),
    )


def _trial(run: RunFile, trial: TrialRow) -> Trial:
    """Return a trial; one that did not end has no ratio."""
    ratio = trial.throughput_ratio
    return Trial(
        id=trial.id,
        kind=trial.kind,
        title=trial.title,
        change=trial.change,
        set_by=trial.set_by,
        pairs=len(run.pairs(trial.id)),
        throughput_ratio=ratio,
        ci95=None if ratio is None else (trial.throughput_ratio_lo, trial.throughput_ratio_hi),
        compared=trial.compared,
        outcome=trial.decision or trial.verdict,
        sentence=trial.sentence,
    )


def _drill(run: RunFile, drill: DrillRow) -> Drill:
    return Drill(
        fault=drill.fault,
        title=drill.title,
        cuts=tuple(run.cuts(drill.id)),
    )
