"""One signal to many processes, as nearly at one moment as an operating system allows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from signal import Signals


def send(pids: Iterable[int], number: Signals) -> None:
    """A signal to each of ``pids`` that is still there."""
    with _undisturbed():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Nobody else gets this thread's core meanwhile, where that may be asked for (root).

    Signals waken processes, one of which then takes the sender's place. On two busy cores a round
    to 25 processes took 15 ms, in which the last went on working without the first: a server's
    clients without its WAL writer. Undisturbed it takes 0.1 ms.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, parameters)
