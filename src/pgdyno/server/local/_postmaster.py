"""A running postmaster: a guarded process that reports when it is ready."""

from __future__ import annotations

import math
import time
from pathlib import Path
from signal import Signals
from typing import Protocol

from pgdyno.server.local.guarded import Guarded
from pgdyno.server.local.safefiles import read_text

_POLL_S = 0.005
_PID_FILE_STATUS_LINE = 7  # LOCK_FILE_LINE_PM_STATUS, counted from 0


class ServerProcess(Protocol):
    """The process that runs a server: a postmaster, or a program that runs one."""

    @property
    def pid(self) -> int:
        """PID of the postmaster."""

    @property
    def running(self) -> bool:
        """True if it has not ended."""

    @property
    def exit_signal(self) -> Signals | None:
        """The signal that ended it; ``None`` while it runs, or after a normal exit."""

    def wait_ready(self, data_dir: Path, seconds_max: float = math.inf) -> bool:
        """Wait until the server accepts connections; ``False`` if it ends or takes too long."""

    def stop(self, number: Signals) -> None:
        """Send a shutdown signal and wait for the end."""

    def kill(self) -> list[int]:
        """Send SIGKILL to all of its processes; return their PIDs once they have ended."""

    def end(self) -> None:
        """End it at once."""


class Postmaster(Guarded):
    """A postmaster from launch to exit."""

    def wait_ready(self, data_dir: Path, seconds_max: float = math.inf) -> bool:
        """Wait until the server accepts connections; ``False`` if it ends or takes too long.

        Recovery may take long; without ``seconds_max`` the wait lasts as long as the postmaster.
        """
        pid_file = data_dir / "postmaster.pid"
        deadline_s = time.monotonic() + seconds_max
        while not self.wait_exit(_POLL_S) and time.monotonic() < deadline_s:
            if self._status(pid_file) == "ready":
                return True
        return False

    def _status(self, pid_file: Path) -> str:
        """Return the status in postmaster.pid: starting, stopping, ready, standby."""
        lines = (read_text(pid_file) or "").splitlines()
        ours = len(lines) > _PID_FILE_STATUS_LINE and lines[0] == str(self.pid)
        return lines[_PID_FILE_STATUS_LINE].strip() if ours else ""
