"""Where the ``pgdyno`` command begins, also as ``python -m pgdyno``.

Until a run has something to put away, Ctrl-C just ends the process, quietly; a run then installs
handlers of its own (``conduct.interrupt``). That is settled before anything else is imported.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from pgdyno.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
