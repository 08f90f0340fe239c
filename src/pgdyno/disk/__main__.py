"""``python -m pgdyno.disk FOLDER``: unmount all disks below a folder. A disk's daemon runs it.

With ``--dead`` before FOLDER it is that of a cluster whose pgdyno was killed: its server is waited
for first, and daemons are ended too. The keeper of disks runs that.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pgdyno.disk._leftovers import end_leftovers
from pgdyno.disk.mounting import unmount_all
from pgdyno.server.local.sweep import end_server, is_served
from pgdyno.server.locks import locked, try_lock

_PATIENCE_S = 30.0
_OWNER_S_MAX = 10.0
"""For the kernel to free the lock of a process that was killed."""
_SERVER_S_MAX = 10.0
"""For the server's guardian to end it, which it does better than can be done from here."""
_MOUNT_S_MAX = 1.0
"""For a mount to come up that pgdyno had begun when it was killed."""
_POLL_S = 0.05


def main(words: list[str]) -> None:
    """Do it; what was done goes to standard error."""
    *options, folder = words
    sentences = (
        _of_dead(Path(folder)) if options else unmount_all(Path(folder), patience_s=_PATIENCE_S)
    )
    for sentence in sentences:
        print(sentence, file=sys.stderr)


def _of_dead(folder: Path) -> list[str]:
    """As a sweep does it, but for the folder itself and what lies elsewhere: they are a sweep's."""
    if not _is_ownerless(folder):
        return []
    deadline_s = time.monotonic() + _SERVER_S_MAX
    while is_served(folder) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    end_server(folder)
    done = end_leftovers(folder)
    time.sleep(_MOUNT_S_MAX)
    return [*done, *end_leftovers(folder)]


def _is_ownerless(folder: Path) -> bool:
    """Whether no pgdyno has the cluster; one that has its lock sweeps it.

    The lock is not kept: a sweep, which may begin at any time, does the same, and they may meet.
    """
    deadline_s = time.monotonic() + _OWNER_S_MAX
    while (folder / "lock").exists() and time.monotonic() < deadline_s:
        with locked(folder.parent / ".lock"):  # Else a sweep might find it taken, by us.
            lock = try_lock(folder / "lock")
            if lock is not None:
                os.close(lock)
        if lock is not None:
            return True
        time.sleep(_POLL_S)
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
