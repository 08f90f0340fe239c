"""The one way of a result into the run file, and the one way out of it."""

from __future__ import annotations

from pydantic import ValidationError

from pgdyno.record import Recorder, RunFile
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
"""The type of each result that a run file keeps, by command."""


def store(recorder: Recorder, result: Result) -> None:
    """Write ``result`` into the run file, over any earlier one."""
    recorder.update_run(result=result.to_json())


def load(run: RunFile) -> Result | None:
    """Return the result of a run; None where there is none, or none that can be read any more."""
    made = BY_COMMAND.get(run.run.command)
    if made is None or not run.run.result:
        return None
    try:
        return made.model_validate(run.run.result)
    except ValidationError:
        return None
