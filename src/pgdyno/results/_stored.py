"""Storing a result in the run file, and loading it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from pydantic import ValidationError

from pgdyno.record import Recorder, RunFile
from pgdyno.shapes import Json

if TYPE_CHECKING:
    from pgdyno.results.age import AgeResult
    from pgdyno.results.branch import BranchResult
    from pgdyno.results.check import CheckResult
    from pgdyno.results.compare import CompareResult
    from pgdyno.results.drill import DrillResult
    from pgdyno.results.investigate import InvestigateResult
    from pgdyno.results.knee import KneeResult
    from pgdyno.results.pool import PoolResult
    from pgdyno.results.price import PriceResult
    from pgdyno.results.run import RunResult
    from pgdyno.results.soak import SoakResult
    from pgdyno.results.storm import StormResult

    Result: TypeAlias = (
        RunResult
        | CompareResult
        | InvestigateResult
        | PriceResult
        | DrillResult
        | CheckResult
        | KneeResult
        | PoolResult
        | StormResult
        | AgeResult
        | SoakResult
        | BranchResult
    )

COMMANDS = (
    *("run", "compare", "investigate", "price", "drill", "check", "knee", "pool", "storm"),
    *("age", "soak", "branch"),
)
"""Commands whose run file has a result; its type is COMMANDResult in ``results/COMMAND.py``."""


def result_type(command: str) -> type[Result]:
    """Return the type of a command's result; a command does not import those of others."""
    module = import_module(f"pgdyno.results.{command}")
    found: type[Result] = getattr(module, f"{command.capitalize()}Result")
    return found


def store(recorder: Recorder, result: Result) -> None:
    """Write ``result`` to the run file and replace an earlier one."""
    members = result.to_json()
    for name in result.in_tables:
        del members[name]
    recorder.update_run(result=members)


def load(run: RunFile) -> Result | None:
    """Return the result of a run; None if there is none, or if it does not validate."""
    command = run.run.command
    if command not in COMMANDS or not run.run.result:
        return None
    kind = result_type(command)
    try:
        members = run.run.result | kind.of_tables(run)
        return kind.model_validate(members)
    except ValidationError:
        return None


def recorded_json(run: RunFile) -> Json:
    """Return the JSON of the result of a run, empty if there is none; as it stands in the file, if
    this version cannot read it."""
    result = load(run)
    return run.run.result if result is None else result.to_json()
