"""Helper of tests that wait for what happens a moment later."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 400
"""For what never comes, and only that: no machine, however slow and busy, is to reach it. Less than
the time limit of a test, so that what was waited for is told."""
PAUSE_S_MIN, PAUSE_S_MAX = 0.02, 0.1


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait until it holds, and look less often the longer that takes: a look may be dear."""
    deadline = time.monotonic() + seconds
    pause_s = PAUSE_S_MIN
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, PAUSE_S_MAX)
