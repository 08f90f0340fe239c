"""The spec of a case: that of its cause, at the case's intensity, version and seed."""

from __future__ import annotations

import re
from typing import Any

from exam.model import SCENARIOS, Case, Fields
from pgdyno.spec.read import read_fields

_NUMBER = re.compile(r"\d+(\.\d+)?")


def fields_of(case: Case, *, busy_machine: bool, intensity: float | None = None) -> Fields:
    """Return the fields of the case's spec, at its own ``intensity`` unless one is given.

    ``busy_machine`` lets other programs on the machine pass, except where they are the cause.
    """
    factor = case.intensity if intensity is None else intensity
    fields, _ = read_fields(SCENARIOS / case.cell / f"{case.cause.name}.toml")
    fields["name"] = case.cause.name
    server, load = fields.setdefault("server", {}), fields.setdefault("load", {})
    server["version"] = case.version
    load["seed"] = case.random_seed
    if busy_machine:
        load.setdefault("max_other_programs", 1.0)
    for key in case.cause.scaled:
        _multiply(fields, key, factor)
    for key in case.cause.divided:
        _multiply(fields, key, 1 / factor)
    return fields


def _multiply(fields: Fields, key: str, factor: float) -> None:
    *path, last = key.split(".")
    place: Any = fields
    for part in path:
        place = place[int(part) if isinstance(place, list) else part]
    place[last] = multiplied(place[last], factor)


def multiplied(value: str | float, factor: float) -> str | float:
    """Return the value with its first number multiplied; a whole number remains whole."""
    if isinstance(value, int):
        return max(1, round(value * factor))
    if isinstance(value, float):
        return value * factor
    return _NUMBER.sub(lambda found: f"{float(found[0]) * factor:g}", value, count=1)
