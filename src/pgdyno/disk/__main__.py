"""``python -m pgdyno.disk DIRECTORY``: unmount all disks below a directory. Run by a disk's daemon.

With ``--dead`` before DIRECTORY, the directory is that of a cluster whose pgdyno was killed: wait
for the end of its server first, and also end the daemons. Run by ``cleanup_process.py``.
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
"""Time for the kernel to free the lock of a process that was killed."""
_SERVER_S_MAX = 10.0
"""Time for the server's guardian to end it, which it does in better order than this module."""
_MOUNT_S_MAX = 1.0
"""Time for the completion of a mount that pgdyno had begun when it was killed."""
_POLL_S = 0.05


def main(words: list[str]) -> None:
    """Unmount, and write what was done to standard error."""
    *options, directory = words
    sentences = (
        _of_dead(Path(directory))
        if options
        else unmount_all(Path(directory), patience_s=_PATIENCE_S)
    )
    for sentence in sentences:
        print(sentence, file=sys.stderr)


def _of_dead(directory: Path) -> list[str]:
    """Do what a sweep does, except removing the directory and what is outside of it."""
    if not _is_ownerless(directory):
        return []
    deadline_s = time.monotonic() + _SERVER_S_MAX
    while is_served(directory) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    end_server(directory)
    done = end_leftovers(directory)
    time.sleep(_MOUNT_S_MAX)
    return [*done, *end_leftovers(directory)]


def _is_ownerless(directory: Path) -> bool:
    """Return whether no pgdyno has locked the cluster; one that has the lock removes it itself.

    The lock is not kept: a concurrent sweep does the same work, and both may run at once.
    """
    deadline_s = time.monotonic() + _OWNER_S_MAX
    while (directory / "lock").exists() and time.monotonic() < deadline_s:
        with locked(
            directory.parent / ".lock"
        ):  # Otherwise a sweep might find it locked by this process.
            lock = try_lock(directory / "lock")
            if lock is not None:
                os.close(lock)
        if lock is not None:
            return True
        time.sleep(_POLL_S)
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
