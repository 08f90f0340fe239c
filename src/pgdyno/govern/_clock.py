"""The clock by which a decision grows old: it does not jump, and counts the time that the machine
sleeps, so that a reading from before that is stale."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_s() -> float:
    """Return the seconds since the machine was started."""
    return time.clock_gettime(_CLOCK)
