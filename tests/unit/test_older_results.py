"""Results in run files of older versions, which lack members that were added later."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import report_runs

from pgdyno.record import RunFile
from pgdyno.results import load, schemas

ADDED = {
    "run": (
        *("database", "incidents", "failures", "ledger.over", "ledger.carried_in"),
        *("ledger_measured", "throughput_over_time", "latency_over_time"),
        "throughput_by_clients",
        *("groups.clients_connected", "groups.ledger.over", "groups.ledger.carried_in"),
        *("errors.group", "errors.file", "errors.line", "errors.statement", "errors.client"),
        *("errors.detail", "errors.hint", "errors.context", "errors.excerpt", "errors.advice"),
        *("findings.remedies.specific", "findings.advice"),
    ),
    "compare": ("database", "incidents", "catalogue", "set_by", "failures", "postponed", "chapter"),
    "investigate": (
        *("database", "incidents", "steps.set_by", "steps.failures", "prices.losses.promised"),
        *("steps.specific", "steps.tolerance", "steps.pairs_needed", "steps.proof"),
        *("steps.postponed", "not_measured.minutes_needed", "total", "total.postponed"),
        "total_absent",
    ),
    "price": ("incidents", "prices.gain.set_by", "prices.losses.promised", "against"),
    "drill": ("chapter",),
}
"""Command → members that were added since schema 4 of run files."""


def complete(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """Return a value of a schema, with all members and one item in each list."""
    if "$ref" in schema:
        return complete(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema or "oneOf" in schema:
        return complete((schema.get("anyOf") or schema["oneOf"])[0], definitions)
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    kind = schema.get("type", "object")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            members = schema.get("properties", {}).items()
            return {name: complete(member, definitions) for name, member in members}
        case "array" if "prefixItems" in schema:
            return [complete(item, definitions) for item in schema["prefixItems"]]
        case "array":
            item = complete(schema.get("items") or {"type": "null"}, definitions)
            return [item] * schema.get("minItems", 1)
        case "string":
            return "x"
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return 1


def without(result: Any, path: str) -> Any:
    """Return ``result`` without a member, in all items of the lists on its path."""
    result = copy.deepcopy(result)
    parents = [result]
    *names, last = path.split(".")
    for name in names:
        parents = [item for parent in parents for item in items(parent[name])]
    for parent in parents:
        del parent[last]
    return result


def items(value: Any) -> Iterator[Any]:
    yield from value if isinstance(value, list) else [value]


@pytest.mark.parametrize(
    ("command", "path"),
    [(command, path) for command, paths in ADDED.items() for path in ("", *paths)],
)
def test_a_result_without_a_later_member_is_read(command: str, path: str, tmp_path: Path) -> None:
    schema = schemas()[command]
    result = complete(schema, schema["$defs"])
    writer = report_runs.Writer(tmp_path / "run.db", 2, command=command)
    writer.recorder.update_run(result=without(result, path) if path else result)
    with RunFile(writer.finish()) as run:
        assert load(run) is not None


@pytest.mark.parametrize("command", ADDED)
def test_a_result_without_all_later_members_is_read(command: str, tmp_path: Path) -> None:
    schema = schemas()[command]
    result = complete(schema, schema["$defs"])
    for path in reversed(ADDED[command]):
        result = without(result, path)
    writer = report_runs.Writer(tmp_path / "run.db", 2, command=command)
    writer.recorder.update_run(result=result)
    with RunFile(writer.finish()) as run:
        assert load(run) is not None


def test_failures_of_an_older_run_are_those_of_its_ledger(tmp_path: Path) -> None:
    schema = schemas()["run"]
    result = without(complete(schema, schema["$defs"]), "failures")
    result["ledger"] |= {"done": 3, "failed": 1}
    writer = report_runs.Writer(tmp_path / "run.db", 2, command="run")
    writer.recorder.update_run(result=result)
    with RunFile(writer.finish()) as run:
        loaded = load(run)
    assert loaded is not None
    failures = loaded.to_json()["failures"]
    assert failures == {"count": 1, "share": 0.25, "sqlstate": None, "message": None}
