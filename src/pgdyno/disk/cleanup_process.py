"""The process that removes the disks of pgdyno's servers when pgdyno is killed.

Run as a script, never imported: ``python -I -S cleanup_process.py`` with standard input piped to
pgdyno, in a session of its own. Each line is the directory of a cluster that will have disks; one
that is incomplete is of a directory in which nothing was made yet.

When pgdyno has ended, it runs ``python -m pgdyno.disk --dead DIRECTORY`` for each directory that
still exists, in parallel, so that a disk that hangs does not delay the others; ``disks.log`` in the
directory records the actions. Disks that are not removed in time are left to the sweep of a later
start.

Imports little, since it waits during every load with disks.
"""

import contextlib
import os
import subprocess
import sys
import time

# The package is not on the path of a script that runs in isolation.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))  # noqa: PTH120

from pgdyno.watchdogs import ignore_stop_signals, lines_until_end

_END_S_MAX = 120.0


def main() -> None:
    ignore_stop_signals()
    named = [*map(os.fsdecode, lines_until_end(os.getppid()))]
    directories = [each for each in named if os.path.isdir(each)]  # noqa: PTH112
    begun = [_dismantling(directory) for directory in directories]
    deadline_s = time.monotonic() + _END_S_MAX
    for process in begun:
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def _dismantling(directory: str) -> subprocess.Popen[bytes]:
    log = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):
        path = f"{directory}/disks.log"
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    command = [sys.executable, "-m", "pgdyno.disk", "--dead", directory]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


if __name__ == "__main__":
    main()
