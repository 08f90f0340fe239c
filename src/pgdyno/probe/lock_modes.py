"""Modes of locks on tables, and which of them conflict.

Source: table 13.2 of the manual, "Conflicting Lock Modes", the same in versions 14 to 19.
"""

from __future__ import annotations

MODES = (
    *("AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock"),
    *("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"),
)
"""As pg_locks names them, in the order of their numbers, weak ones first."""
CONFLICT_ROWS = ("7", "67", "4567", "34567", "23567", "234567", "1234567", "01234567")
CONFLICTS = {
    mode: frozenset(MODES[int(index)] for index in row)
    for mode, row in zip(MODES, CONFLICT_ROWS, strict=True)
}


def conflict(one: str, other: str) -> bool:
    """Return whether two modes exclude each other; a mode that is not known conflicts with all."""
    return one not in CONFLICTS or other in CONFLICTS[one]


def strength(mode: str) -> int:
    """Return the place of a mode in ``MODES``, -1 for one that is not known."""
    return MODES.index(mode) if mode in MODES else -1


def strongest_beside(mode: str) -> str | None:
    """Return the strongest mode that does not conflict with ``mode``; None if all do."""
    return next((each for each in reversed(MODES) if not conflict(mode, each)), None)
