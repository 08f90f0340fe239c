"""Stands beside pgdyno and takes the disks of its servers away when pgdyno is killed.

Run as a script, never imported: ``python -I -S keeper.py`` with standard input piped to pgdyno, in
a session of its own, out of reach of the terminal's Ctrl-C and of what kills pgdyno's process
group. Each line names the folder of a cluster that gets disks, before it has any.

When standard input closes or the parent changes, pgdyno is gone: each folder that is still there is
given to ``python -m pgdyno.disk --dead FOLDER``, a process of its own, so that a disk that hangs
holds up none of the others; its ``disks.log`` has what was done. What that has not done in time is
left to the sweep of a later start.

Imports only the standard library, and little of it, for it waits beside every load that has disks.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

_LOOK_MS = 1000
_END_S_MAX = 120.0


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    folders = [folder for folder in _folders(os.getppid()) if os.path.isdir(folder)]  # noqa: PTH112
    begun = [_dismantling(folder) for folder in folders]
    deadline_s = time.monotonic() + _END_S_MAX
    for process in begun:
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def _folders(parent: int) -> list[str]:
    """What pgdyno named until it was gone; some child of its may hold the pipe."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    said = b""
    while os.getppid() == parent:
        if poller.poll(_LOOK_MS):
            read = os.read(0, 65536)
            if not read:
                break
            said += read
    # A last line that is not whole is of a folder in which nothing was made yet.
    return [os.fsdecode(line) for line in said.split(b"\n")[:-1]]


def _dismantling(folder: str) -> subprocess.Popen[bytes]:
    log = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):
        path = f"{folder}/disks.log"
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    command = [sys.executable, "-m", "pgdyno.disk", "--dead", folder]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


if __name__ == "__main__":
    main()
