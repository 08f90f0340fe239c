"""The texts of the built-in scripts: those of pgbench, which the engine has, and pgdyno's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

SCRIPTS = Path(__file__).with_name("scripts")


@cache
def builtin_texts() -> Mapping[str, str]:
    """Return the text of each built-in script that can be part of a mix, by its name."""
    from pgdyno._engine import builtin_scripts

    own = {
        path.stem: path.read_text(encoding="utf-8")
        for pattern in ("business*.sql", "entity-resolution.sql")
        for path in sorted(SCRIPTS.glob(pattern))
    }
    return {**builtin_scripts(), **own}
