"""Reads this room's .sql files, where all of its SQL lives."""

from __future__ import annotations

from pathlib import Path


def query(name: str) -> bytes:
    """The text of ``sql/NAME.sql``."""
    return Path(__file__).with_name("sql").joinpath(f"{name}.sql").read_bytes()
