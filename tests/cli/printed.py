"""What a command printed, for the tests of commands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    status: int
    out: str
    err: str
