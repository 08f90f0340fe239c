"""The file of the results, in JSON, from which the page is generated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, astuple

from benches.matrix import Matrix, Row
from benches.sample import Case, Sample

SCHEMA_VERSION = 2
RESULTS = Path(__file__).with_name("results") / "latest.json"


def matrix_json(matrix: Matrix) -> list[dict[str, Any]]:
    """Return rows with all samples, each [transactions, seconds, user CPU s, system CPU s]."""
    return [
        {
            **asdict(row.case),
            "contender": row.contender,
            "samples": [
                [round(value, 6) for value in astuple(sample)] if sample else None
                for sample in row.samples
            ],
        }
        for row in matrix.rows
    ]


def matrix_from(rows: list[dict[str, Any]]) -> Matrix:
    """Return the matrix that ``matrix_json`` converted."""
    return Matrix(
        [
            Row(
                Case(row["script"], row["clients"], row["transport"]),
                row["contender"],
                [Sample(*sample) if sample else None for sample in row["samples"]],
            )
            for row in rows
        ]
    )


def write_part(
    path: Path, machine: Mapping[str, Any], name: str, figures: Mapping[str, Any]
) -> None:
    """Write the figures of a part, measured on ``machine``, to the file, which keeps its other
    parts, perhaps of other machines."""
    results = read_results(path) if path.exists() else {}
    parts = {**results.get("parts", {}), name: {"machine": machine, **figures}}
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f'"schema_version": {SCHEMA_VERSION}']
    inner = [f"{json.dumps(part)}: {_part(parts[part])}" for part in sorted(parts)]
    lines.append('"parts": {' + ",\n".join(inner) + "}")
    path.write_text("{" + ",\n".join(lines) + "}\n")


def read_results(path: Path) -> dict[str, Any]:
    """Return the content of the file."""
    results: dict[str, Any] = json.loads(path.read_text())
    return results


def _part(figures: Mapping[str, Any]) -> str:
    return "{" + ",\n".join(f"{json.dumps(k)}: {_value(v)}" for k, v in figures.items()) + "}"


def _value(value: Any) -> str:
    """Return JSON with one row of a list per line, for readable differences between versions."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(row) for row in value) + "]"
