"""The published JSON schemas of all results, by command."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from pgdyno.record.part import Part
from pgdyno.results._stored import COMMANDS, result_type
from pgdyno.results.diff import DiffResult
from pgdyno.results.front import FrontReading
from pgdyno.results.govern import GovernDecision
from pgdyno.results.story import StoryResult
from pgdyno.results.unfinished import Unfinished
from pgdyno.results.vacuumplan import VacuumPlanResult
from pgdyno.shapes import Json


class _Published(GenerateJsonSchema):
    """A generator of schemas without titles that repeat the names of keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@cache
def schemas() -> dict[str, Json]:
    """Return the JSON schema of each command's result, and of ``unfinished``."""
    types: dict[str, type[Part]] = {command: result_type(command) for command in COMMANDS}
    types |= {"story": StoryResult, "diff": DiffResult, "unfinished": Unfinished}
    types |= {"govern": GovernDecision, "vacuum-plan": VacuumPlanResult, "front": FrontReading}
    return {name: _schema(result) for name, result in types.items()}


def _schema(result: type[Part]) -> dict[str, object]:
    """Return the schema of a result with its command as title; definitions have no titles."""
    schema = result.model_json_schema(schema_generator=_Published)
    for definition in schema.get("$defs", {}).values():
        definition.pop("title", None)
    title = schema.pop("title")
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": title, **schema}
