"""Looks at a server kept to a part of its time: with many sessions a look takes longer, and the
next one is later.
"""

from __future__ import annotations

import time
from collections import deque

REMEMBERED = 20


class LookBudget:
    """The time of the next look, so that looks take at most ``share_max`` of the time.

    ``pause_s_max`` bounds the pause between two looks, since some are needed however long they
    take. Without ``share_max`` a look is always due.
    """

    def __init__(self, share_max: float | None, pause_s_max: float) -> None:
        self._share_max = share_max
        self._pause_s_max = pause_s_max
        self._took_s: deque[float] = deque(maxlen=REMEMBERED)
        self._next_s = 0.0

    @property
    def is_due(self) -> bool:
        """True if the next look may be taken."""
        return time.monotonic() >= self._next_s

    def spend(self, began_s: float, took_s: float) -> None:
        """Count a look that began at monotonic ``began_s``."""
        if self._share_max is None:
            return
        # The quickest of the last: one that waited for a core took longer than it cost.
        self._took_s.append(took_s)
        pause_s = min(self._took_s) / self._share_max
        self._next_s = began_s + min(self._pause_s_max, pause_s)
