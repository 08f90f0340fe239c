"""Reads this room's .sql files, where all of its SQL lives."""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString, cast


def query(name: str) -> LiteralString:
    """The text of ``sql/NAME.sql``, which is ours and therefore as good as a literal."""
    path = Path(__file__).with_name("sql").joinpath(f"{name}.sql")
    return cast("LiteralString", path.read_text())
