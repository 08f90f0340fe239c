"""The process that removes the disks of pgdyno's servers when pgdyno is killed.

Run as a script, never imported: ``python -I -S cleanup_process.py`` with standard input piped to
pgdyno, in a session of its own, which the terminal's Ctrl-C and signals to pgdyno's process group
do not reach. Each line is the directory of a cluster that will have disks.

When standard input is closed or the parent changes, pgdyno has ended. For each directory that still
exists it then runs ``python -m pgdyno.disk --dead DIRECTORY``, in parallel, so that a disk that
hangs does not delay the others; ``disks.log`` in the directory records the actions. Disks that are
not removed in time are left to the sweep of a later start.

Imports only a small part of the standard library, since it waits during every load with disks.
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
    named = _directories(os.getppid())
    directories = [each for each in named if os.path.isdir(each)]  # noqa: PTH112
    begun = [_dismantling(directory) for directory in directories]
    deadline_s = time.monotonic() + _END_S_MAX
    for process in begun:
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def _directories(parent: int) -> list[str]:
    """Read directories until pgdyno has ended; a child of pgdyno may still have the pipe open."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    said = b""
    while os.getppid() == parent:
        if poller.poll(_LOOK_MS):
            read = os.read(0, 65536)
            if not read:
                break
            said += read
    # An incomplete last line is of a directory in which nothing was made yet.
    return [os.fsdecode(line) for line in said.split(b"\n")[:-1]]


def _dismantling(directory: str) -> subprocess.Popen[bytes]:
    log = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):
        path = f"{directory}/disks.log"
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    command = [sys.executable, "-m", "pgdyno.disk", "--dead", directory]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


if __name__ == "__main__":
    main()
