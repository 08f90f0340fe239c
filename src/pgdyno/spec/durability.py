"""Durability classes: what a crash of the operating system or a power cut may take.

    D0   nothing that was acknowledged
    D1   the last acknowledged commits; the database stays consistent
    D2   the consistency of the database
    D3   the whole database

A user allows one of them; a change is of one, or it is not known of which.
"""

from __future__ import annotations

from typing import Literal

DurabilityClass = Literal["D0", "D1", "D2", "D3"]
AssessedClass = Literal["D0", "unknown", "D1", "D2", "D3"]
"""Of a change; "unknown" where PostgreSQL's documentation does not say what may be lost."""

_ORDER: tuple[AssessedClass, ...] = ("D0", "unknown", "D1", "D2", "D3")


def severity(durability_class: AssessedClass) -> int:
    """For comparing classes: what may lose more has more."""
    return _ORDER.index(durability_class)


def within(durability_class: AssessedClass, allowed: DurabilityClass) -> bool:
    """Whether a durability budget of ``allowed`` covers the class; what is not known is covered by
    D3 alone."""
    if durability_class == "unknown":
        return allowed == "D3"
    return severity(durability_class) <= severity(allowed)
