"""Removal of disks that a crash has left: mounts, loop devices, daemons; and the start of
``cleanup_process.py``, which removes them at once if pgdyno is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pgdyno
from pgdyno.disk.mounting import STUCK_DEAD_S, unmount_all
from pgdyno.server.local.programs import process_directories

_processes: list[subprocess.Popen[bytes]] = []
"""The process, once there was a disk. It ends with pgdyno, which does not wait for it."""
DAEMON_MODULE = "pgdyno.disk.daemon"
_PATIENCE_S = 5.0
_END_S_MAX = 1.0
_POLL_S = 0.01


def clean_up_if_killed(cluster: Path) -> None:
    """Have the disks in the directory of a cluster removed if pgdyno is killed.

    Call it before there are any. In a normal exit the disks are closed before the process ends.
    """
    line = os.fsencode(os.path.realpath(cluster)) + b"\n"
    if _processes and _send(_processes[0], line):
        return
    while _processes:  # It was killed.
        _processes.pop().communicate()
    _processes.append(_started())
    _send(_processes[0], line)


def module_environment() -> dict[str, str]:
    """Return the environment of a process that runs a module of this package, which may have been
    found by a path relative to pgdyno's working directory."""
    home = str(Path(pgdyno.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("cleanup_process.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        cwd="/",
        env=module_environment(),
        start_new_session=True,
    )


def _send(process: subprocess.Popen[bytes], line: bytes) -> bool:
    assert process.stdin is not None
    try:
        process.stdin.write(line)
    except BrokenPipeError:
        return False
    return True


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
    for entry in process_directories():
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            words = [os.fsdecode(word) for word in command.split(b"\0")]
            if DAEMON_MODULE in words and _is_below(words[-2], base):
                found.append(int(entry.name))
    return found


def _is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(base + "/")
