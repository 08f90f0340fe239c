"""``python -m pgdyno.disk DIRECTORY``: unmount all disks below a directory. Run by a disk's daemon.

With ``--dead`` before DIRECTORY, the directory is that of a cluster whose pgdyno was killed: wait
for the end of its server first, and also end the daemons. Run by ``cleanup_process.py``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pgdyno.disk._cleanup import end_leftovers
from pgdyno.disk.mounting import unmount_all
from pgdyno.server.local.sweep import end_server, ended_with_its_owner

_PATIENCE_S = 30.0
_MOUNT_S_MAX = 1.0
"""Time for the completion of a mount that pgdyno had begun when it was killed."""


def main(words: list[str]) -> None:
    """Unmount, and write each action to standard error."""
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
    if not ended_with_its_owner(directory):
        return []
    end_server(directory)
    done = end_leftovers(directory)
    time.sleep(_MOUNT_S_MAX)
    return [*done, *end_leftovers(directory)]


if __name__ == "__main__":
    main(sys.argv[1:])
