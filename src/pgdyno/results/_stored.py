"""Storing a result in the run file, and loading it.

The type of a command's result is ``COMMANDResult`` in ``results/COMMAND.py``; no list names it.
"""

from __future__ import annotations

from typing import TypeAlias

from pydantic import ValidationError

from pgdyno.json_types import Json
from pgdyno.record import Recorder, RunFile
from pgdyno.record.part import Part
from pgdyno.registry import module_named

Result: TypeAlias = Part
"""The result of any command."""


def result_type(command: str) -> type[Result] | None:
    """Return the type of a command's result, without importing those of others; None for a command
    whose run file has none."""
    module = module_named("pgdyno.results", command)
    found: type[Result] | None = getattr(module, f"{command.capitalize()}Result", None)
    return found


def store(recorder: Recorder, result: Result) -> None:
    """Write ``result`` to the run file and replace an earlier one.

    Raises TypeError if it would not be found again by its command.
    """
    command = type(result).__module__.rpartition(".")[2]
    if result_type(command) is not type(result):
        raise TypeError(f"{type(result).__name__} is not {command.capitalize()}Result")
    members = result.to_json()
    for name in result.in_tables:
        del members[name]
    recorder.update_run(result=members)


def load(run: RunFile) -> Result | None:
    """Return the result of a run; None if there is none, or if it does not validate."""
    kind = result_type(run.run.command) if run.run.result else None
    if kind is None:
        return None
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
