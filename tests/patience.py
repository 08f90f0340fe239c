"""Helpers of tests that wait for what happens a moment later, and that work beside something."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 400
"""For what never comes, and only that: no machine, however slow and busy, is to reach it. Less than
the time limit of a test, so that what was waited for is told."""
PAUSE_S_MIN, PAUSE_S_MAX = 0.02, 0.1


def wait_until(
    condition: Callable[[], object],
    what: object,
    *,
    look: Callable[[], object] | None = None,
    seconds: float = PATIENCE_S,
) -> None:
    """Wait until ``condition`` holds; look less often the longer that takes, as a look may be dear.

    ``what`` names what is waited for; a function says more, at the end. ``look`` is called between
    two looks, in place of a pause.
    """
    deadline = time.monotonic() + seconds
    pause_s = PAUSE_S_MIN
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"never: {what() if callable(what) else what}")
        if look is not None:
            look()
        else:
            time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, PAUSE_S_MAX)


@contextmanager
def beside(work: Callable[[threading.Event, threading.Event], None]) -> Iterator[None]:
    """Call ``work`` in a thread, with an event that it sets when it has begun, which is waited for,
    and one that is set at the end."""
    begun, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(begun, ended))
    thread.start()
    try:
        assert begun.wait(PATIENCE_S)
        yield
    finally:
        ended.set()
        thread.join()
