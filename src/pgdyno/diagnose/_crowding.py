"""Crowds: more sessions can run than the cores can serve, or they queue for shared memory.

Trigger and thresholds are those of the finding on connections (``connections``). What makes the
queue for a core decides which finding owns it, so that other findings ask this too.
"""

from __future__ import annotations

from pgdyno.diagnose._contention import unsigned
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.quota import is_throttled

QUEUE_PER_CORE = 2.0
BUSY_SHARE = 0.9
SHARED_SHARE = 0.2


def crowded(s: Situation) -> bool:
    """True if more sessions can run than the cores can serve, quotas apart."""
    if is_throttled(s):
        return False
    if s.sessions(*unsigned(s)) >= 1.0 and s.part(*unsigned(s)) >= SHARED_SHARE:
        return True
    busy = s.cpu_if_recorded is None or s.cpu.busy_share >= BUSY_SHARE
    return busy and s.queueing + s.sessions(*unsigned(s)) >= QUEUE_PER_CORE * s.cores
