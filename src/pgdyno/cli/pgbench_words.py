"""Options of pgbench that pgdyno does not have, and what to use instead."""

from __future__ import annotations

_INSTEAD = {
    ("--debug",): "leave it out: --verbose-errors tells every error",
    ("--continue-on-error",): (
        "leave it out: a failed transaction is counted by its SQLSTATE, and a lost"
        " connection is made again"
    ),
}


def instead_of(option: str) -> str | None:
    """What to use instead of pgbench's ``option``; ``None`` if it is not one of pgbench's."""
    name = option.partition("=")[0]
    return next((hint for names, hint in _INSTEAD.items() if name in names), None)
