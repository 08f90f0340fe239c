"""Access to this room's .sql files."""

from __future__ import annotations

from pathlib import Path


def query(name: str) -> bytes:
    """Return the text of ``sql/NAME.sql``."""
    return Path(__file__).with_name("sql").joinpath(f"{name}.sql").read_bytes()
