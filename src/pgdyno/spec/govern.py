"""The governor of a run: ages between which its clients slow down, and at which they pause."""

from typing import Self

from pydantic import Field, model_validator

from pgdyno.json_types import Fields
from pgdyno.spec._base import PositiveDuration, SpecTable
from pgdyno.spec.age import STOP_AGE, Age

LOW, HIGH = 1_200_000_000, 1_500_000_000
"""Thresholds of Senzing's governor for large loads: a narrow band leaves the vacuum that a pause
waits for enough of the IDs, and the pause ends soon (its documentation, autovacuum experiments)."""
INTERVAL_S_MAX = 60
"""Longest time between two looks, of a run and of the daemon."""


class GovernSpec(SpecTable):
    """For pgdyno run: a governor to which the clients keep, as loaders keep to pgdyno govern."""

    on: bool = Field(
        True, description="false: it looks at the ages, and the clients do not keep to it"
    )
    low: Age = Field(LOW, description="Age of the oldest ID from which clients slow down")
    high: Age = Field(
        HIGH, description="Age at which they pause, until the oldest ID is younger than low"
    )
    interval_ms: PositiveDuration = Field(
        1_000,
        alias="interval",
        description="Time between two looks at the server, at most a minute",
    )
    vacuum: bool = Field(
        False, description="Vacuum the oldest tables (VACUUM FREEZE) while clients pause"
    )

    @model_validator(mode="after")
    def _marks_in_order(self) -> Self:
        if self.interval_ms > INTERVAL_S_MAX * 1000:
            raise ValueError(f"interval must be at most {INTERVAL_S_MAX} s")
        if not self.low < self.high < STOP_AGE:
            raise ValueError(
                f"low must be below high, and high below {STOP_AGE:,}, where the server stops"
            )
        return self


def check_governed(govern: GovernSpec | None, others: Fields) -> None:
    """Raise ValueError for parts of a spec that exclude a governor, by key, with whether they are
    used."""
    for key, used in others.items():
        if govern is not None and used:
            raise ValueError(f"{key} cannot be used with govern, which sets the clients and rates")
