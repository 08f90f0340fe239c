"""Server processes that outlived a killed pgdyno and its guardian, and their shared memory.

A process is ours when it is a PostgreSQL program whose working directory is the data directory in a
folder of ours: every server process stays in its data directory all its life.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from pgdyno.server.sharedmem import remove_shared_memory
from pgdyno.server.signals import send

_IMMEDIATE_S_MAX = 5.0
_KILL_S_MAX = 5.0
_POLL_S = 0.01


def end_leftovers(data_dir: Path) -> None:
    """End every server process in ``data_dir`` and remove the shared memory they leave.

    The caller holds the cluster's lock, so that no living pgdyno owns them.
    """
    for number, seconds in ((signal.SIGQUIT, _IMMEDIATE_S_MAX), (signal.SIGKILL, _KILL_S_MAX)):
        deadline = time.monotonic() + seconds
        processes = server_processes(data_dir)
        send(processes, number)
        send(processes, signal.SIGCONT)  # One that was stopped takes a signal only when it goes on.
        while processes and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            processes = server_processes(data_dir)
    remove_shared_memory(data_dir)


def server_processes(data_dir: Path) -> list[int]:
    """Ids of all server processes in ``data_dir``, the postmaster among them."""
    wanted = os.path.realpath(data_dir)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            program = (entry / "exe").readlink().name.removesuffix(" (deleted)")
            if program == "postgres" and str((entry / "cwd").readlink()) == wanted:
                found.append(int(entry.name))
    return found
