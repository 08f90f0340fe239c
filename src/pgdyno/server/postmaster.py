"""A running postmaster, held through its guardian process (see guardian.py)."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.account import Account, plain_environment

_POLL_S = 0.005
_STOP_S_MAX = 300.0
_CHILDREN_S_MAX = 10.0
_PID_FILE_STATUS_LINE = 7  # LOCK_FILE_LINE_PM_STATUS, counted from 0


class Postmaster:
    """One postmaster from launch to exit."""

    def __init__(self, command: Sequence[str], log_path: Path, account: Account | None) -> None:
        uid, gid = (-1, -1) if account is None else (account.uid, account.gid)
        script = Path(__file__).with_name("guardian.py")
        log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", str(script), str(uid), str(gid), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
                cwd="/",
                env=plain_environment(),
            )
        finally:
            os.close(log)
        assert self._guardian.stdin is not None
        assert self._guardian.stdout is not None
        self._orders = self._guardian.stdin
        self._answers = self._guardian.stdout
        try:
            self.pid = int(self._answers.readline() or 0)
        except BaseException:
            self.end()
            raise

    @property
    def running(self) -> bool:
        """Whether the postmaster has not ended."""
        return not self.wait_exit(0)

    def wait_ready(self, data_dir: Path) -> bool:
        """Wait until the server takes connections; ``False`` when it ended instead.

        Recovery may take long and is waited for, as long as the postmaster lives.
        """
        pid_file = data_dir / "postmaster.pid"
        while not self.wait_exit(_POLL_S):
            if self._status(pid_file) == "ready":
                return True
        return False

    def _status(self, pid_file: Path) -> str:
        """What the postmaster wrote about itself: starting, stopping, ready, standby."""
        try:
            lines = pid_file.read_text().splitlines()
        except OSError:
            return ""
        ours = len(lines) > _PID_FILE_STATUS_LINE and lines[0] == str(self.pid)
        return lines[_PID_FILE_STATUS_LINE].strip() if ours else ""

    def wait_exit(self, timeout_s: float) -> bool:
        """Whether it has ended, after waiting up to ``timeout_s`` for that."""
        if self._guardian.returncode is not None:
            return True
        # The guardian writes nothing more: readable means that it has closed its end.
        ended, _, _ = select.select([self._answers], [], [], timeout_s)
        if ended:
            self._guardian.wait()
            self._close()
        return bool(ended)

    def stop(self, number: signal.Signals) -> None:
        """Send a shutdown signal and wait for the end."""
        self._signal(number)
        if not self.wait_exit(_STOP_S_MAX):
            self.end()
            raise SetupError(
                f"PostgreSQL had not shut down after {_STOP_S_MAX:.0f} s and was stopped at once",
                code="stop-timeout",
            )

    def kill(self) -> None:
        """SIGKILL, and wait until the children have noticed and left."""
        children = _children(self.pid)
        self._signal(signal.SIGKILL)
        self.wait_exit(_STOP_S_MAX)
        deadline = time.monotonic() + _CHILDREN_S_MAX
        while any(_alive(child) for child in children) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def end(self) -> None:
        """Let go: the guardian shuts the server down at once, and ends with it."""
        if self._guardian.returncode is None:
            self._close()
            self._guardian.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._orders.write(b"%d\n" % number)
            self._orders.flush()

    def _close(self) -> None:
        self._orders.close()
        self._answers.close()


def _children(pid: int) -> list[int]:
    """The direct children, which for a postmaster are all of its processes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == pid:
            found.append(int(entry.parent.name))
    return found


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
