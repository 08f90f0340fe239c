"""The spec with which pgdyno is asked about a draw, and the one with which a draw is repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from exam.drawn.model import Draw
from exam.drawn.schema import setup_of
from exam.drawn.world import Shape

HOLD = "5s"


def spec_text(
    drawn: Draw,
    shape: Shape,
    server: Mapping[str, Any],
    scripts: Sequence[tuple[str, int]],
    *,
    rate_tps: float | None,
    setup: str | None = None,
) -> str:
    """Return a spec as TOML; ``scripts`` and ``setup`` are names of files, ``server`` its table."""
    group: dict[str, Any] = {"count": shape.clients}
    if shape.pool is not None:
        group["pool"] = {"max": shape.pool}
    if shape.reconnects:
        group["connection"] = "per-transaction"
    if rate_tps is not None:
        group["arrival"] = {"rate": rate_tps, "process": drawn.load.process}
    workload: dict[str, Any] = {} if setup is None else {"setup": setup}
    workload["script"] = [{"file": name, "weight": weight} for name, weight in scripts]
    load = {"hold": HOLD, "protocol": shape.protocol, "seed": drawn.seed, "plans": "try"}
    lines = [f'name = "draw-{drawn.seed}"']
    for name, table in {"server": server, "workload": workload, "load": load}.items():
        lines += ["", f"[{name}]", *_members(table)]
    return "\n".join([*lines, "", "[[clients]]", *_members(group), ""])


def write_repeatable(folder: Path, drawn: Draw, shape: Shape, rate_tps: float | None) -> None:
    """Write a spec with its files, by which ``pgdyno run`` repeats a draw on a server of its own.

    What runs beside the load is missing there; a comment says so.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scripts = []
    for number, (text, weight) in enumerate(shape.scripts):
        scripts.append((f"script{number}.sql", weight))
        (folder / scripts[-1][0]).write_text(text + "\n")
    (folder / "setup.sql").write_text("\n".join(_setup(drawn)))
    faults = [each for each in drawn.faults if each.scope == "system"]
    settings = {name: value for each in faults for name, value in each.settings.items()}
    server: dict[str, Any] = {"version": drawn.version}
    if settings:
        server["settings"] = settings
    text = spec_text(drawn, shape, server, scripts, rate_tps=rate_tps, setup="setup.sql")
    beside = [f"{name} {value:g}" for each in drawn.faults for name, value in each.beside.items()]
    comment = f"# The cause is missing here: {', '.join(beside)}\n" if beside else ""
    (folder / "spec.toml").write_text(comment + text)


def _setup(drawn: Draw) -> Iterator[str]:
    """Yield the statements that make the tables and plant the causes, in one transaction, in which
    nothing can be vacuumed."""
    for text in setup_of(drawn.load.names, drawn.load.parts):
        yield "analyze;" if text.startswith("vacuum") else f"{text.rstrip().rstrip(';')};"
    for fault in drawn.faults:
        for name, value in fault.settings.items():
            if fault.scope != "system":
                yield f"alter {fault.scope} pgdyno set {name} = '{value}';"
        for statement in () if fault.bait else fault.plant:
            yield "analyze;" if statement.startswith("vacuum") else f"{statement};"


def _members(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield f"{key} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_members(value)) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
