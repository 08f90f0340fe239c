"""Tells the process that takes disks away when pgdyno is killed (keeper.py) of their folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pgdyno

_keepers: list[subprocess.Popen[bytes]] = []
"""One, once there was a disk. It ends with pgdyno, and nobody waits for that."""


def keep_watch(cluster: Path) -> None:
    """Have the disks in the folder of a cluster taken away should pgdyno be killed.

    To be called before there are any. What an orderly end closes is gone by then.
    """
    line = os.fsencode(os.path.realpath(cluster)) + b"\n"
    if _keepers and _told(_keepers[0], line):
        return
    while _keepers:  # It was killed.
        _keepers.pop().communicate()
    _keepers.append(_started())
    _told(_keepers[0], line)


def module_environment() -> dict[str, str]:
    """For a process that runs a module of this package, which may have been found by a path
    relative to where pgdyno runs."""
    home = str(Path(pgdyno.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        cwd="/",
        env=module_environment(),
        start_new_session=True,
    )


def _told(keeper: subprocess.Popen[bytes], line: bytes) -> bool:
    assert keeper.stdin is not None
    try:
        keeper.stdin.write(line)
    except BrokenPipeError:
        return False
    return True
