"""The guardian of the kernel's parameters: a process that restores them when pgdyno is killed.

``_changes.py`` runs it (``watchdogs.Guardian``) with the lock of the record. What the record, which
pgdyno removes when all is restored, still has when pgdyno ends is restored then.
"""

from __future__ import annotations

import os
import sys
import time

from pgdyno.watchdogs import READY, ignore_stop_signals, lines_until_end, say

_TRIES = 5
_PAUSE_S = 2.0


def main() -> int:
    """Wait for the end of pgdyno, then restore."""
    ignore_stop_signals()
    parent = os.getppid()
    from pgdyno.kernel import _record

    say(READY)
    for _ in lines_until_end(parent):
        pass
    for _ in range(_TRIES):
        record = _record.read()
        if record is None:
            return 0
        record.restore()
        if not record.changed:
            return 0
        time.sleep(_PAUSE_S)
    return 1


if __name__ == "__main__":
    sys.exit(main())
