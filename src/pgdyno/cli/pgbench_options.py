"""Options of pgbench that pgdyno does not have, and their replacements."""

from __future__ import annotations

_REPLACEMENTS = {
    ("--debug",): "leave it out: --verbose-errors prints every error",
    ("--continue-on-error",): (
        "leave it out: a failed transaction is counted by its SQLSTATE, and a lost"
        " connection is opened again"
    ),
}


def replacement_hint(option: str) -> str | None:
    """Return the hint for pgbench's ``option``; ``None`` if it is not an option of pgbench."""
    name = option.partition("=")[0]
    return next((hint for names, hint in _REPLACEMENTS.items() if name in names), None)
