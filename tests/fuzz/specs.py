"""Mutates spec files, as text and as values, and checks each: a spec or one message.

What is accepted is accepted again when it is printed with all its defaults.
"""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from rounds import pgdyno, play, scratch

from pgdyno.spec import Spec

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FOLDER = scratch()
VALUES: tuple[Any, ...] = (
    True, False, 0, 1, -1, 2**31, 2**63, 10**30, 1.5, -0.0, float("nan"), float("inf"), 1e308, "",
    "x", "0", "0s", "10s", "-1s", "1e9s", "9" * 40 + "d", "16MB", "\x00", "\u202e", "../../etc",
    [], [1], [{}], {}, {"a": 1}, {"rate": 0}, {"rate": float("nan")}, {"max": True}, "closed",
)  # fmt: skip
KEYS = ("x", "", "\n", "name", "count", "script", "file", "rate", "at", "settings", "__class__")


def mutated(fields: Any, rng: random.Random) -> Any:
    """``fields`` with one thing in it replaced, removed or added."""
    if isinstance(fields, dict) and fields and rng.random() < 0.85:
        key = rng.choice(list(fields))
        if rng.random() < 0.15:
            return {k: v for k, v in fields.items() if k != key}
        if rng.random() < 0.1:
            return fields | {rng.choice(KEYS): rng.choice(VALUES)}
        return fields | {key: mutated(fields[key], rng)}
    if isinstance(fields, list) and fields and rng.random() < 0.8:
        place = rng.randrange(len(fields))
        return [*fields[:place], mutated(fields[place], rng), *fields[place + 1 :]]
    return rng.choice(VALUES)


def broken(text: bytes, rng: random.Random) -> bytes:
    """The text with some bytes replaced, or a piece doubled or missing."""
    content = bytearray(text)
    place = rng.randrange(len(content))
    if rng.random() < 0.5:
        for _ in range(rng.choice([1, 5])):
            content[rng.randrange(len(content))] = rng.randrange(256)
        return bytes(content)
    piece = content[place : place + rng.randrange(1, 40)]
    return bytes(content[:place] + piece * rng.choice([0, 2, 3]) + content[place + len(piece) :])


def one(rng: random.Random) -> str | None:
    """Checks one mutated spec."""
    text = rng.choice(SPECS)
    path = FOLDER / "mutated.toml"
    if rng.random() < 0.3:
        content = broken(text, rng)
    else:
        fields = tomllib.loads(text.decode()) if rng.random() < 0.6 else DEFAULTS
        for _ in range(rng.choice([1, 1, 2, 4])):
            changed = mutated(fields, rng)
            fields = changed if isinstance(changed, dict) else fields
        content = tomli_w.dumps(fields).encode()
    path.write_bytes(content)
    said = pgdyno("spec", "check", str(path))
    if said.complaint or said.status not in (0, 1):
        return f"{content.decode(errors='replace')}\n{said.complaint or said}"
    if said.status == 0:
        path.write_text(said.out)
        again = pgdyno("spec", "check", str(path))
        if (again.status, again.out) != (0, said.out):
            return f"{said.out}\nis not taken back\n{again}"
    return None


if __name__ == "__main__":
    SPECS = [path.read_bytes() for path in sorted(SCENARIOS.glob("*.toml"))]
    DEFAULTS = Spec().model_dump(mode="json", by_alias=True, exclude_none=True)
    play("specs", one)
