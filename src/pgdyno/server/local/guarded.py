"""A program of PostgreSQL's that runs beside pgdyno and dies with it, held through its guardian
process (see guardian.py)."""

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
from pgdyno.server.local.account import Account, plain_environment
from pgdyno.server.local.signals import send

_POLL_S = 0.005
_BY_SIGNAL = 128
"""Added to a signal's number in an exit status, as a shell does."""
_STOP_S_MAX = 300.0


class Guarded:
    """One program from launch to exit."""

    def __init__(self, command: Sequence[str], log_path: Path, account: Account | None) -> None:
        self._name = Path(command[0]).name
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
        """True if it has not ended."""
        return not self.wait_exit(0)

    def wait_exit(self, timeout_s: float) -> bool:
        """True if it has ended, after waiting up to ``timeout_s`` for that."""
        if self._guardian.returncode is not None:
            return True
        # The guardian writes nothing more: readable means that it has closed its end.
        ended, _, _ = select.select([self._answers], [], [], timeout_s)
        if ended:
            self._guardian.wait()
            self._close()
        return bool(ended)

    @property
    def exit_signal(self) -> signal.Signals | None:
        """The signal that ended it; ``None`` while it runs, and when it ended by itself."""
        status = self._guardian.returncode
        if status is None or 0 <= status <= _BY_SIGNAL:
            return None
        return signal.Signals(-status if status < 0 else status - _BY_SIGNAL)

    def stop(self, number: signal.Signals) -> None:
        """Send a shutdown signal and wait for the end."""
        self._signal(number)
        if not self.wait_exit(_STOP_S_MAX):
            self.end()
            raise SetupError(
                f"{self._name} did not shut down within {_STOP_S_MAX:.0f} s and was killed",
                code="stop-timeout",
            )

    def kill(self) -> list[int]:
        """SIGKILL to it and every process below it, at once; their ids, when all left.

        It is stopped first: it can then neither start another process nor give an id free that was
        just read.
        """
        if not self.running:
            return []
        send([self.pid], signal.SIGSTOP)
        pids = [self.pid, *_below(self.pid)]
        send(pids, signal.SIGKILL)
        self.wait_exit(_STOP_S_MAX)
        deadline = time.monotonic() + _STOP_S_MAX
        while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return pids

    def end(self) -> None:
        """Let go: the guardian ends the program at once, and ends with it."""
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


def _below(pid: int) -> list[int]:
    """All descendants: the server's processes and what those started, as an archiver's command."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        if fields := _stat_fields(int(entry.parent.name)):
            parents[int(entry.parent.name)] = int(fields[1])
    found = [pid]
    for above in found:
        found += [child for child, parent in parents.items() if parent == above]
    return found[1:]


def _alive(pid: int) -> bool:
    """True if the process runs: one that has ended and not been waited for does not."""
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX"


def _stat_fields(pid: int) -> list[str]:
    """What /proc tells about a process from its state on; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
