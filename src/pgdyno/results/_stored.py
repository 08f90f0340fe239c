"""Storing a result in the run file, and loading it."""

from __future__ import annotations

from pydantic import ValidationError

from pgdyno.record import Recorder, RunFile
from pgdyno.results.common import FROM_FILE
from pgdyno.results.compare import CompareResult
from pgdyno.results.drill import DrillResult
from pgdyno.results.investigate import InvestigateResult
from pgdyno.results.price import PriceResult
from pgdyno.results.run import RunResult

Result = RunResult | CompareResult | InvestigateResult | PriceResult | DrillResult

BY_COMMAND: dict[str, type[Result]] = {
    "run": RunResult,
    "compare": CompareResult,
    "investigate": InvestigateResult,
    "price": PriceResult,
    "drill": DrillResult,
}
"""Command → type of its result in the run file."""


def store(recorder: Recorder, result: Result) -> None:
    """Write ``result`` to the run file and replace an earlier one."""
    recorder.update_run(result=result.to_json())


def load(run: RunFile) -> Result | None:
    """Return the result of a run; None if there is none, or if this version cannot read it."""
    result_type = BY_COMMAND.get(run.run.command)
    if result_type is None or not run.run.result:
        return None
    try:
        return result_type.model_validate(run.run.result, context=FROM_FILE)
    except (ValidationError, LookupError, TypeError):
        return None
