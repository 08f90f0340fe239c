"""Processes that outlived a killed pgdyno and their guardian, and their shared memory.

A server process is pgdyno's if it runs a ``postgres`` binary in a data directory of pgdyno: every
server process keeps its data directory as working directory. Guardians, and tools that copy or
receive for a server, poolers, failover managers and front ends name a directory of pgdyno in their
arguments.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from pgdyno.server.local.account import server_account
from pgdyno.server.local.sharedmem import remove_shared_memory
from pgdyno.server.local.signals import send

_HELPERS = frozenset(
    (
        *(
            b"guardian.py",
            b"pg_receivewal",
            b"pg_basebackup",
            b"pg_rewind",
            b"pg_dump",
            b"pg_restore",
            b"initdb",
            b"cp",
            b"rm",
        ),
        *(b"pgbouncer", b"pgpool", b"haproxy", b"patroni", b"etcd", b"java"),
    )
)
_IMMEDIATE_S_MAX = 5.0
_KILL_S_MAX = 5.0
_POLL_S = 0.01


def end_leftovers(data_dir: Path) -> None:
    """End all server processes in ``data_dir`` and remove their shared memory.

    The caller holds the cluster's lock, so that no living pgdyno owns them.
    """
    for number, seconds in ((signal.SIGQUIT, _IMMEDIATE_S_MAX), (signal.SIGKILL, _KILL_S_MAX)):
        deadline = time.monotonic() + seconds
        processes = server_processes(data_dir)
        send(processes, number)
        send(processes, signal.SIGCONT)  # A stopped process handles a signal only when continued.
        while processes and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            processes = server_processes(data_dir)
    remove_shared_memory(data_dir)


def end_helpers(directory: Path) -> None:
    """Kill guardians, poolers, front ends and PostgreSQL's tools that work in ``directory``.

    The caller holds the lock that proves that no living pgdyno owns them.
    """
    deadline = time.monotonic() + _KILL_S_MAX
    while (processes := helpers(directory)) and time.monotonic() < deadline:
        send(processes, signal.SIGKILL)
        time.sleep(_POLL_S)


def helpers(directory: Path) -> list[int]:
    """Return the PIDs of guardians and tools that work in ``directory``."""
    base = os.fsencode(os.path.realpath(directory))
    account = server_account()
    owners = {os.geteuid()} | ({account.uid} if account else set())
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            names = {word.rpartition(b"/")[2] for word in words[:4]}
            ours = bool(names & _HELPERS) and any(base in word for word in words)
            if ours and entry.stat().st_uid in owners:
                found.append(int(entry.name))
    return found


def server_processes(data_dir: Path) -> list[int]:
    """Return the PIDs of all server processes in ``data_dir``, including the postmaster."""
    wanted = os.path.realpath(data_dir)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            binary = (entry / "exe").readlink().name.removesuffix(" (deleted)")
            if binary == "postgres" and str((entry / "cwd").readlink()) == wanted:
                found.append(int(entry.name))
    return found
