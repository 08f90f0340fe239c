"""The marks between which loaders slow down, and how much."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.errors import UsageError
from pgdyno.spec.age import STOP_AGE
from pgdyno.spec.govern import HIGH, LOW

SHARE_MIN = 0.05


class Marks(Struct, frozen=True):
    """Ages in IDs. Raises UsageError for marks between which there is nothing."""

    low: int = LOW
    high: int = HIGH

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < STOP_AGE:
            raise UsageError(
                f"--low {self.low:,} --high {self.high:,}: the low mark must be below the high one,"
                f" and that below {STOP_AGE:,}, where the server stops",
                code="marks",
                hint="the defaults are 1.2e9 and 1.5e9",
            )

    def share(self, age: float) -> float:
        """Return the part of their time that loaders may work: 1 up to the low mark, and down to
        ``SHARE_MIN`` at the high one along a straight line."""
        beyond = (age - self.low) / (self.high - self.low)
        return min(1.0, max(SHARE_MIN, 1.0 - beyond))


def delay_per_s(share: float) -> float:
    """Return the rest after a second of work with which the work is ``share`` of the time."""
    return 0.0 if share <= 0 else (1.0 - share) / share
