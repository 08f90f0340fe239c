"""What a command said on stderr."""

from __future__ import annotations


def error_of(err: str) -> str:
    """What begins with the error; notes of what else happened may come before it."""
    lines = err.splitlines(keepends=True)
    first = [line.startswith("error: ") for line in lines].index(True)
    return "".join(lines[first:])
