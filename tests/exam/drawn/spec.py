"""The spec with which pgdyno is asked about a draw."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exam.drawn.model import Draw
from exam.drawn.world import Shape
from pgdyno.server import ConnInfo

HOLD = "5s"


def spec_text(
    drawn: Draw,
    shape: Shape,
    entrance: ConnInfo,
    scripts: Sequence[tuple[str, int]],
    rate_tps: float | None,
) -> str:
    """Return the spec, as TOML, of a load on a running server; ``scripts`` are names of files."""
    group: dict[str, Any] = {"count": shape.clients}
    if shape.pool is not None:
        group["pool"] = {"max": shape.pool}
    if shape.reconnects:
        group["connection"] = "per-transaction"
    if rate_tps is not None:
        group["arrival"] = {"rate": rate_tps, "process": drawn.load.process}
    parts = [{"file": name, "weight": weight} for name, weight in scripts]
    tables = {
        "server": {"kind": "existing", "conninfo": entrance.uri_without_password},
        "workload": {"script": parts},
        "load": {"hold": HOLD, "protocol": shape.protocol, "seed": drawn.seed},
    }
    lines = [f'name = "draw-{drawn.seed}"']
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_members(table)]
    return "\n".join([*lines, "", "[[clients]]", *_members(group), ""])


def _members(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield f"{key} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_members(value)) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
