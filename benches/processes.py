"""Execution of a contender's program, with its CPU time."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence

from msgspec import Struct

from benches.sample import BenchError
from pgdyno.server.local.account import plain_environment


class Ended(Struct, frozen=True):
    """Output and times of a program that succeeded."""

    stdout: str
    stderr: str
    seconds: float
    cpu_user_s: float
    cpu_system_s: float


def run_to_end(argv: Sequence[str], *, timeout_s: float) -> Ended:
    """Run a program and measure its CPU time (wait4). Raises BenchError if it fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began_s = time.monotonic()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=plain_environment(), cwd="/"
        )
        timer = threading.Timer(timeout_s, os.kill, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
        seconds = time.monotonic() - began_s
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        ended = Ended(out.read(), err.read(), seconds, usage.ru_utime, usage.ru_stime)
    if process.returncode != 0:
        said = (ended.stderr or ended.stdout).strip().splitlines()[-3:]
        raise BenchError(f"{argv[0]} ended with {process.returncode}: {' / '.join(said)}")
    return ended
