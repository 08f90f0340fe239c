"""Entry point of the ``pgdyno`` command, also as ``python -m pgdyno``.

A session has its own way to be stopped, with all that it puts away (``conduct.interrupt``). Outside
of one there is nothing to put away: a stop signal ends the process, with one line. That is settled
before anything else is imported.
"""

import gc
import os
import sys

GC_THRESHOLD = 200_000
"""Of the garbage collector, more objects than a start makes: what modules and models consist of
stays, and looking through it is a tenth of the start."""


def _leave(number: int, name: str) -> None:
    try:
        os.write(2, f"error: interrupted by {name}\n".encode())
    finally:  # also when nobody is there to read it
        os._exit(128 + number)


try:
    import signal
except KeyboardInterrupt:
    _leave(2, "SIGINT")


def _stop(number: int, _frame: object) -> None:
    """Leave, unless a session that was stopped is on its way out and is to say so itself."""
    interrupt = sys.modules.get("pgdyno.conduct._interrupt")
    if interrupt is None or not interrupt.under_way():
        _leave(number, signal.Signals(number).name)


def main() -> None:
    """Entry point of the ``pgdyno`` command; ends the process."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(each, _stop)
    gc.set_threshold(GC_THRESHOLD)
    from pgdyno.cli import main as begin

    begin()


if __name__ == "__main__":
    main()
