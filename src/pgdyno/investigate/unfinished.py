"""The JSON of a command that came to no result: what ended it, and what was measured until then.

It is made from the run file alone, so that the command itself and a later ``pgdyno show`` say the
same. Its schema is ``docs/reference/result-unfinished.schema.json``.
"""

from __future__ import annotations

from typing import Any

from pgdyno.diagnose.failures import failures
from pgdyno.errors import Ending
from pgdyno.record import CutRow, DrillRow, RunFile, throughput_tps
from pgdyno.record import Slice as SliceRow
from pgdyno.record import Trial as TrialRow
from pgdyno.record.plain import plain
from pgdyno.results.common import SCHEMA_VERSION
from pgdyno.results.unfinished import Cut, Drill, Error, Slice, Trial, Unfinished
from pgdyno.trial.result import error_counts, failures_of, incidents_of, whole_ledger


def without_run(command: str | None, ending: Ending) -> Unfinished:
    """Of a command that ended before it began to record a run."""
    return Unfinished(**_head(command, None, "failed", error_of(ending)))


def unfinished(run: RunFile) -> Unfinished:
    """Of a run that failed, was interrupted, or still goes on."""
    info = run.run
    return Unfinished(
        **_head(info.command, str(run.path), info.status, _error(run)),
        incidents=incidents_of(run),
        failures=failures_of(failures(run, None)),
        errors=error_counts(run),
        ledger=whole_ledger(run),
        slices=tuple(_slice(run, each) for each in run.slices()),
        trials=tuple(_trial(run, each) for each in run.trials()),
        drills=tuple(_drill(run, each) for each in run.drills()),
        so_far=info.result or None,
    )


def recorded_result(run: RunFile) -> dict[str, Any]:
    """Return the JSON of a run's result, or of what an unfinished run has instead."""
    if run.run.status == "done":
        return run.run.result
    result: dict[str, Any] = plain(unfinished(run).to_json())
    return result


def error_of(ending: Ending) -> Error:
    """What ended a command, as results have it."""
    return Error.model_validate(ending.to_json())


def _head(
    command: str | None, run_file: str | None, status: str, error: Error | None
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "run_file": run_file,
        "status": status,
        "verdict": None,
        "error": error,
    }


def _error(run: RunFile) -> Error | None:
    """What ended the run: as it was told then; of one that was killed, that it was; of one that
    goes on nothing."""
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
    """A trial; one that did not come to its end has no ratio."""
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
        cuts=tuple(_cut(cut) for cut in run.cuts(drill.id)),
    )


def _cut(cut: CutRow) -> Cut:
    ledger = cut.ledger
    return Cut(
        number=cut.number,
        variant=cut.variant,
        outcome=cut.outcome,
        acked=ledger.get("acked") if ledger else None,
        lost=ledger.get("lost") if ledger else None,
        recovery_s=cut.recovery_s,
    )
