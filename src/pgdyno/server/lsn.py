"""Positions in the WAL, as numbers and as PostgreSQL writes them."""

from __future__ import annotations


def lsn_text(lsn: int) -> str:
    """Return a position as PostgreSQL writes it: ``0/16B3748``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Parse a position as PostgreSQL writes it."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)
