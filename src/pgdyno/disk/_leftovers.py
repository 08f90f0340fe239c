"""Removes what disks left below a directory after a crash: mounts, loop devices, daemons."""

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


def end_leftovers(directory: Path) -> list[str]:
    """Unmount all below ``directory``, detach loop devices, end daemons; return a sentence each.

    The servers that used them must have ended, and the data must not be needed: a disk that does
    not accept pending writes at once is disconnected. Raises no errors and never hangs.
    """
    done = unmount_all(directory, patience_s=_PATIENCE_S, stuck_s=STUCK_DEAD_S)
    return [*done, *_end_daemons(directory)]


def _end_daemons(directory: Path) -> list[str]:
    """Wait for the daemons, which end with their mounts, and kill those that do not."""
    deadline = time.monotonic() + _END_S_MAX
    while pids := _daemons(directory):
        if time.monotonic() > deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return [f"killed the disk's daemon, process {pid}" for pid in pids]
        time.sleep(_POLL_S)
    return []


def _daemons(directory: Path) -> list[int]:
    base = os.path.realpath(directory)
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = [os.fsdecode(word) for word in entry.read_bytes().split(b"\0")]
            if DAEMON_MODULE in words and _is_below(words[-2], base):
                found.append(int(entry.parts[2]))
    return found


def _is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(base + "/")
