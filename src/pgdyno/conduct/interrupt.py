"""Stopping on Ctrl-C and SIGTERM at any moment, and cleaning up without being interrupted again.

The first signal raises :class:`Interrupted` in the main thread, wherever it is; from then on, and
while anything is being put away, further signals are ignored. A signal that was being ignored when
pgdyno began (nohup, a shell's background job) stays so.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pgdyno.errors import Interrupted

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals() -> Iterator[None]:
    """While inside, the first of SIGINT, SIGTERM or SIGHUP raises :class:`Interrupted`, once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        for each in _STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(f"interrupted by {signal.Signals(number).name}")

    heeded = [each for each in _STOP_SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in heeded}
    try:
        yield
    finally:
        _restore(before)


def ignore_stop_signals() -> None:
    """Ignore stop signals from here to the end of :func:`stop_signals`, which puts them back."""
    if threading.current_thread() is threading.main_thread():
        for each in _STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for each, handler in handlers.items():
        signal.signal(each, handler if handler is not None else signal.SIG_DFL)
