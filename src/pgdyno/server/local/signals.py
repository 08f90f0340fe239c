"""Sending a signal to many processes, as nearly simultaneously as the system allows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from signal import Signals


def send(pids: Iterable[int], number: Signals) -> None:
    """Send a signal to each of ``pids`` that still exists."""
    with _without_preemption():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@contextlib.contextmanager
def _without_preemption() -> Iterator[None]:
    """Run this thread with real-time priority within the block, where permitted (root).

    A signalled process wakes up and may preempt the sender. On two busy cores, sending to 25
    processes took 15 ms, during which the last ones ran without the first: a server's backends
    without its WAL writer. Without preemption it takes 0.1 ms.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, parameters)
