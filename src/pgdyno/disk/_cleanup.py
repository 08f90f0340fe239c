"""Starts ``cleanup_process.py``, which removes disks if pgdyno is killed, and sends it paths."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pgdyno

_processes: list[subprocess.Popen[bytes]] = []
"""The process, once there was a disk. It ends with pgdyno, which does not wait for it."""


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
