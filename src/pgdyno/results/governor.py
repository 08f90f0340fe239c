"""The governor of a run in the result of ``pgdyno run``."""

from __future__ import annotations

from pgdyno.results.common import Part
from pgdyno.results.govern import GovernMarks, Of


class RunGovernor(Part):
    """The governor of a run, and what came of it"""

    on: bool
    """false: it looked at the ages, and the clients did not keep to it"""
    marks: GovernMarks
    interval_s: float
    looks: int
    of: Of
    """The measure that was nearest to its end"""
    age_max: int
    """Highest age that was seen"""
    beyond_high: int
    """Distance of that from the high mark; 0: it was not reached"""
    slow_s: float
    """Time for which clients were slowed down"""
    pauses: int
    paused_s: float
    unknown_s: float
    """Part of paused_s in which the server could not be asked"""
    vacuumed: int | None
    """Tables vacuumed during pauses; null: it does not vacuum"""
    refused: int
    """Transactions that the server refused an ID"""
    sentence: str
