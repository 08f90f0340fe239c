"""A process that ends with pgdyno, run by a guardian process (see guardian.py), and its log."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.local.account import ServerAccount, plain_environment
from pgdyno.server.local.programs import process_directories, send

_POLL_S = 0.005
_BY_SIGNAL = 128
"""Added to a signal's number in an exit status, as a shell does."""
_STOP_S_MAX = 300.0
_SUSPENDED_S_MAX = 10.0
_BYTES_MAX = 64 << 20


class Guarded:
    """A process from launch to exit."""

    def __init__(
        self,
        command: Sequence[str],
        log_path: Path,
        account: ServerAccount | None,
        *,
        end_signal: signal.Signals = signal.SIGQUIT,
        environment: Mapping[str, str] | None = None,
        removes: Path | None = None,
    ) -> None:
        """Start it. When pgdyno has ended, ``end_signal`` ends it at once, and then the directory
        ``removes`` is removed, which has a cluster's lock."""
        self._name = Path(command[0]).name
        self._stopped_since_s = math.inf
        uid, gid = (-1, -1) if account is None else (account.uid, account.gid)
        script = Path(__file__).with_name("guardian.py")
        log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self._guardian = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(script)),
                    *(str(uid), str(gid), str(int(end_signal))),
                    "" if removes is None else str(removes),
                    *command,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
                cwd="/",
                env=plain_environment() if environment is None else environment,
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
        """Wait up to ``timeout_s`` for the process to end; True if it has ended."""
        if self._guardian.returncode is not None:
            return True
        # The guardian writes nothing more, so readable means that it has closed its end.
        ended, _, _ = select.select([self._answers], [], [], timeout_s)
        if ended:
            self._guardian.wait()
            self._close()
        return bool(ended)

    def is_suspended(self) -> bool:
        """Look whether a signal has stopped it; True if each look of the last 10 s found that."""
        now_s = time.monotonic()
        stopped = _stat_fields(self.pid)[:1] == ["T"]
        self._stopped_since_s = min(self._stopped_since_s, now_s) if stopped else math.inf
        return now_s - self._stopped_since_s >= _SUSPENDED_S_MAX

    @property
    def how_it_ended(self) -> str:
        """Words for the way it ended, which follow its name."""
        return f"was ended by {self.exit_signal.name}" if self.exit_signal else "has ended"

    @property
    def exit_status(self) -> int | None:
        """The exit status, as a shell gives it; ``None`` while it runs."""
        return self._guardian.returncode

    @property
    def exit_signal(self) -> signal.Signals | None:
        """The signal that ended it; ``None`` while it runs, or after a normal exit."""
        status = self._guardian.returncode
        if status is None or 0 <= status <= _BY_SIGNAL:
            return None
        return signal.Signals(-status if status < 0 else status - _BY_SIGNAL)

    def stop(self, number: signal.Signals, *, seconds_max: float = _STOP_S_MAX) -> None:
        """Send a shutdown signal and wait for the process to end; SetupError if it had to be
        killed."""
        self._signal(number)
        if not self.wait_exit(seconds_max):
            self.end()
            raise SetupError(
                f"{self._name} did not shut down within {seconds_max:.0f} s and was killed",
                code="stop-timeout",
            )

    def kill(self) -> list[int]:
        """Send SIGKILL to it and all its descendants; return their PIDs once all have ended.

        It is stopped first, so that it can neither start a process nor release a PID that was just
        read. Descendants whose parent has ended are the guardian's children.
        """
        if not self.running:
            return []
        send([self.pid], signal.SIGSTOP)
        pids = _descendants(self._guardian.pid)
        send(pids, signal.SIGKILL)
        self.wait_exit(_STOP_S_MAX)
        deadline = time.monotonic() + _STOP_S_MAX
        while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return pids

    def end(self) -> None:
        """Close the pipes: the guardian ends the process immediately, then itself."""
        if self._guardian.returncode is None:
            self._signal(0)
            self._close()
            self._guardian.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._orders.write(b"%d\n" % number)
            self._orders.flush()

    def _close(self) -> None:
        self._orders.close()
        self._answers.close()


def _descendants(pid: int) -> list[int]:
    """Return the PIDs of all descendants: server processes, and commands that they run."""
    parents = {}
    for entry in process_directories():
        if fields := _stat_fields(int(entry.name)):
            parents[int(entry.name)] = int(fields[1])
    found = [pid]
    for above in found:
        found += [child for child, parent in parents.items() if parent == above]
    return found[1:]


def _alive(pid: int) -> bool:
    """True if the process runs, that is, exists and is not a zombie."""
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX"


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def log_text(path: Path, start: int = 0, *, bytes_max: int = _BYTES_MAX) -> str:
    """Return the log's text from ``start`` on, limited to its last ``bytes_max`` bytes."""
    with path.open("rb") as log:
        log.seek(max(start, path.stat().st_size - bytes_max))
        return log.read(bytes_max).decode(errors="replace")


def last_line(path: Path) -> str:
    """Return the last line of a log."""
    lines = log_text(path, bytes_max=1 << 20).strip().splitlines()
    return lines[-1] if lines else "it logged nothing"
