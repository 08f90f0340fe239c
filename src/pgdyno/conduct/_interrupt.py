"""Stopping on Ctrl-C, SIGTERM or SIGHUP, and cleaning up without being interrupted again.

A stop signal raises :class:`Interrupted` in the main thread, with two exceptions. While an
``Interrupted`` is being handled, further signals are ignored, so that pressing Ctrl-C twice leaves
nothing behind. While a session cleans up in order, signals are held; they are raised once it has
finished, so that nothing else is started. A signal that was ignored when pgdyno started (nohup, a
shell's background job) remains ignored.

An ``Interrupted`` can be lost: Python discards errors of finalizers, and a library may raise an
error of its own in its place. If that one is handled, the signal is sent again; if it would end the
command, the command ends by the signal.

Child processes of pgdyno run in their own sessions, so that the terminal's signals do not reach one
that is cleaning up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from msgspec import Struct

from pgdyno.errors import STOP_SIGNALS, Interrupted, PgdynoError

_AGAIN_S = 0.02
"""Time for the frames that have lost an error to end, before its signal is sent again."""


def _none() -> None:
    return None


class _Signals(Struct):
    """State of the stop signals; one for the process, as handlers are per process."""

    holding: bool = False
    signal: int | None = None
    raised: Callable[[], Interrupted | None] = _none
    """The error raised last, while it is still referenced."""
    active: bool = False
    """True within a :func:`stop_signals` block."""
    again: threading.Timer | None = None
    """Sends a signal again whose error was lost."""

    def begin(self) -> None:
        """Begin the outermost block."""
        self.active, self.raised = True, _none

    def end(self) -> bool:
        """End the outermost block: an error that leaves it is not lost. Return whether one was that
        has not been raised again."""
        self.active = False
        if self.again is None:
            return False
        self.again.cancel()
        self.again = None
        return True

    def keep(self, error: Interrupted, number: int) -> Interrupted:
        """Remember an error that is being raised for signal ``number``."""

        def lost(freed: Callable[[], Interrupted | None]) -> None:
            if self.active and self.raised is freed:
                self.signal = number
                self.again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
                self.again.daemon = True
                self.again.start()

        self.raised = weakref.ref(error, lost)
        return error

    def take(self) -> int | None:
        """Return the held signal and clear it."""
        taken, self.signal = self.signal, None
        return taken


_signals = _Signals()


@contextmanager
def stop_signals(*, hint: str | None = None) -> Iterator[None]:
    """Within the block, SIGINT, SIGTERM and SIGHUP raise :class:`Interrupted` (see the module).

    A held signal is raised at the end, with ``hint``, unless an error ends the outermost of several
    such blocks: then the error says more than the signal, if it is one of pgdyno's or came without
    the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [each for each in STOP_SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, _stop) for each in handled}
    within = _signals.active
    held_before, _signals.holding = _signals.holding, False
    if not within:
        _signals.begin()
    try:
        yield
    finally:
        _signals.holding = held_before
        _restore(before)
        lost = not within and _signals.end()
        number = None if _signals.holding else _signals.take()
        problem = sys.exception()
        replaced = lost and not isinstance(problem, (PgdynoError, Interrupted))
        wanted = within or problem is None or replaced
        if number is not None and wanted and not under_way():
            raise _signals.keep(Interrupted.by(number, hint=hint), number)


def under_way() -> bool:
    """True if a stop signal has been raised and is still being handled."""
    return _signals.raised() is not None


def hold_stop_signals() -> None:
    """Hold stop signals from here to the end of the innermost :func:`stop_signals`."""
    if threading.current_thread() is threading.main_thread():
        _signals.holding = True


def _stop(number: int, frame: FrameType | None) -> None:
    # Not bound to a name here: the error refers to this frame, so it would never be freed.
    if under_way():
        return
    if _signals.holding:
        _signals.signal = _signals.signal or number
    else:
        _signals.signal = None
        raise _signals.keep(Interrupted.by(number), number)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for each, handler in handlers.items():
        signal.signal(each, handler if handler is not None else signal.SIG_DFL)
