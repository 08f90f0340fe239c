"""The published JSON schemas of all results, by command."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from pgdyno.json_types import Json
from pgdyno.record.part import Part
from pgdyno.registry import modules_of


class _Published(GenerateJsonSchema):
    """A generator of schemas without titles that repeat the names of keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@cache
def schemas() -> dict[str, Json]:
    """Return the JSON schema of each command's result, and of ``unfinished``, by the names of their
    modules."""
    modules = modules_of(import_module(str(__package__)))
    return {
        module.__name__.rpartition(".")[2].replace("_", "-"): _schema(result)
        for module in modules
        for result in _titled(module)
    }


def _titled(module: ModuleType) -> Iterator[type[Part]]:
    """Yield the types of a module that have a title: those of whole results."""
    for each in vars(module).values():
        is_type = isinstance(each, type) and issubclass(each, Part)
        if is_type and each.__module__ == module.__name__ and each.model_config.get("title"):
            yield each


def _schema(result: type[Part]) -> dict[str, object]:
    """Return the schema of a result with its command as title; definitions have no titles."""
    schema = result.model_json_schema(schema_generator=_Published)
    for definition in schema.get("$defs", {}).values():
        definition.pop("title", None)
    title = schema.pop("title")
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": title, **schema}
