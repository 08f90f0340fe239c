"""Stopping on Ctrl-C, SIGTERM or SIGHUP at any moment, and cleaning up without being stopped again.

A stop signal raises :class:`Interrupted` in the main thread, wherever it is. Two kinds of moments
are spared. While an ``Interrupted`` is being dealt with, further signals are ignored: whoever
presses Ctrl-C twice must not leave things behind. And what a session puts away in good order is not
broken off: signals are held until it is done, and raised then, for whatever was to follow is not
wanted any more. A signal that was being ignored when pgdyno began (nohup, a shell's background job)
stays so.

Programs that pgdyno runs are out of the terminal's reach, in sessions of their own, so that none
that puts something away is hit in its stead.
"""

from __future__ import annotations

import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from pgdyno.errors import Interrupted

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _none() -> None:
    return None


@dataclass
class _Signals:
    """What became of signals. The process has one of these, as of handlers."""

    holding: bool = False
    signal: int | None = None
    raised: Callable[[], Interrupted | None] = _none
    """The error that was raised last, for as long as anybody has it."""

    def keep(self, error: Interrupted) -> Interrupted:
        """Remember an error that is being raised."""
        self.raised = weakref.ref(error)
        return error

    def take(self) -> int | None:
        """The signal that was held, once."""
        taken, self.signal = self.signal, None
        return taken


_signals = _Signals()


@contextmanager
def stop_signals(*, hint: str | None = None) -> Iterator[None]:
    """While inside, SIGINT, SIGTERM and SIGHUP raise :class:`Interrupted`; see the module's text.

    One that was held is raised at the end, with ``hint``, unless an error ends the outermost of
    several: that says more than that it was no longer waited for.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [each for each in _STOP_SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, _stop) for each in heeded}
    within = _stop in before.values()
    held_before, _signals.holding = _signals.holding, False
    if not within:
        _signals.raised = _none
    try:
        yield
    finally:
        _signals.holding = held_before
        _restore(before)
        number = None if _signals.holding else _signals.take()
        wanted = within or sys.exception() is None
        if number is not None and wanted and _signals.raised() is None:
            raise _signals.keep(Interrupted.by(number, hint=hint))


def under_way() -> bool:
    """Whether a stop signal has been raised and whoever deals with it is not done."""
    return _signals.raised() is not None


def hold_stop_signals() -> None:
    """Hold stop signals from here to the end of the innermost :func:`stop_signals`."""
    if threading.current_thread() is threading.main_thread():
        _signals.holding = True


def _stop(number: int, frame: FrameType | None) -> None:
    # Not bound to a name here, which would keep it for ever: the error has this frame.
    if under_way():
        return
    if _signals.holding:
        _signals.signal = _signals.signal or number
    else:
        raise _signals.keep(Interrupted.by(number))


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for each, handler in handlers.items():
        signal.signal(each, handler if handler is not None else signal.SIG_DFL)
