"""Durability classes: what may be lost in a crash of the operating system or a power cut.

    D0   no acknowledged commit
    D1   the last acknowledged commits; the database stays consistent
    D2   the consistency of the database
    D3   the whole database

The user allows one class; each change has one, or its class is unknown.
"""

from __future__ import annotations

from typing import Literal

DurabilityClass = Literal["D0", "D1", "D2", "D3"]
AssessedClass = Literal["D0", "unknown", "D1", "D2", "D3"]
"""The class of a change; "unknown" if PostgreSQL's documentation does not say what may be lost."""

_ORDER: tuple[AssessedClass, ...] = ("D0", "unknown", "D1", "D2", "D3")


def severity(durability_class: AssessedClass) -> int:
    """Return a number that is larger for a class that may lose more."""
    return _ORDER.index(durability_class)


def within(durability_class: AssessedClass, allowed: DurabilityClass) -> bool:
    """True if the durability limit ``allowed`` permits the class; only D3 permits
    "unknown"."""
    if durability_class == "unknown":
        return allowed == "D3"
    return severity(durability_class) <= severity(allowed)
