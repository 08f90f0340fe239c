"""Takes away what disks left below a folder: mounts, loop devices, daemons, whoever is dead."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from pgdyno.disk.mounting import STUCK_DEAD_S, unmount_all

DAEMON_MODULE = "pgdyno.disk.daemon"
_PATIENCE_S = 5.0
_END_S_MAX = 1.0
_POLL_S = 0.01


def end_leftovers(folder: Path) -> list[str]:
    """Unmount all below ``folder``, detach loop devices, end daemons; a sentence for each.

    The servers that used them must have ended, and what is on the disks is nobody's any more: a
    disk that does not take at once what is still to be written is cut off. Never raises for what
    it finds, never hangs.
    """
    done = unmount_all(folder, patience_s=_PATIENCE_S, stuck_s=STUCK_DEAD_S)
    return [*done, *_end_daemons(folder)]


def _end_daemons(folder: Path) -> list[str]:
    """Daemons end with their mounts; one that does not (stopped, stuck) is killed."""
    deadline = time.monotonic() + _END_S_MAX
    while pids := _daemons(folder):
        if time.monotonic() > deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return [f"killed the disk's daemon, process {pid}" for pid in pids]
        time.sleep(_POLL_S)
    return []


def _daemons(folder: Path) -> list[int]:
    base = os.path.realpath(folder)
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = [os.fsdecode(word) for word in entry.read_bytes().split(b"\0")]
            if DAEMON_MODULE in words and _lies_below(words[-2], base):
                found.append(int(entry.parts[2]))
    return found


def _lies_below(path: str, base: str) -> bool:
    return path == base or path.startswith(base + "/")
