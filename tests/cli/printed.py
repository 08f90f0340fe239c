"""What a command printed, for the tests of commands."""

from __future__ import annotations

from msgspec import Struct


class Said(Struct, frozen=True):
    """What a command said, and how it ended."""

    status: int
    out: str
    err: str
    code: str | None = None
    """Code of the error that it ended with; None without one."""
