"""The results on disk: one JSON file, from which the page is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from benches.matrix import Matrix, Row
from benches.sample import Case, Sample

SCHEMA_VERSION = 1
RESULTS = Path(__file__).with_name("results") / "latest.json"


def matrix_json(matrix: Matrix) -> list[dict[str, Any]]:
    """Rows with all samples, each [transactions, seconds, user CPU s, system CPU s]."""
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
    """The matrix that ``matrix_json`` wrote."""
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


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write the file; a part that was not measured now stays as the file has it."""
    before = json.loads(path.read_text()) if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    merged = {**before, **results, "schema_version": SCHEMA_VERSION}
    lines = [f" {json.dumps(key)}: {_value(value)}" for key, value in merged.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _value(value: Any) -> str:
    """JSON with one row of a list per line, so that a change shows as one."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n ]"
