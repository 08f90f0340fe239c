"""The start of a postmaster: a check of its settings, the wait until it is ready, and errors for
one that cannot start, derived from PostgreSQL's own messages.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import Signals
from typing import Protocol

from pgdyno.errors import PgdynoError, SetupError, UsageError
from pgdyno.server.local._installation import Installation, refusal, setting_names
from pgdyno.server.local.guarded import Guarded, log_text
from pgdyno.server.local.safefiles import read_text
from pgdyno.server.settings.setting_values import not_one_of, refuse_reserved, unknown_setting

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


def check_before_start(installation: Installation, *given: Mapping[str, str]) -> None:
    """Raise one UsageError for all of the ``given`` settings that this build rejects; starts no
    server."""
    errors = [error for settings in given for error in _rejected(installation, settings)]
    distinct = list({error.message: error for error in errors}.values())
    if len(distinct) == 1:
        raise distinct[0]
    if distinct:
        lines = [
            f"{each.message} ({each.hint})" if each.hint else each.message for each in distinct
        ]
        raise UsageError(
            "\n  ".join([f"{len(distinct)} settings cannot be used", *lines]),
            code="settings-invalid",
        )


def accepts(installation: Installation, settings: Mapping[str, str]) -> bool:
    """Return whether this build takes all of the settings; starts no server."""
    return refusal(installation, settings) is None


def _rejected(installation: Installation, settings: Mapping[str, str]) -> Iterator[UsageError]:
    """Yield an error for each setting that cannot be used."""
    allowed: dict[str, str] = {}
    for name, value in settings.items():
        try:
            refuse_reserved(name)
            allowed[name] = value
        except UsageError as error:
            yield error
    # One process for all of them, as long as none is wrong.
    if refusal(installation, allowed) is None:
        return
    for name, value in allowed.items():
        if output := refusal(installation, {name: value}):
            yield _setting_error(installation, name, value, output)


def _setting_error(installation: Installation, name: str, value: str, output: str) -> UsageError:
    """Return the error for a setting that PostgreSQL rejected with ``output``."""
    message, hint = _message_and_hint(output)
    if "unrecognized configuration parameter" in message:
        return unknown_setting(name, setting_names(installation), str(installation.major))
    if "requires a Boolean value" in message:
        return not_one_of(name, value, ("on", "off"), str(installation.major))
    if hint and (choices := re.fullmatch(r"Available values: (.+)\.", hint)):
        return not_one_of(name, value, choices[1].split(", "), str(installation.major))
    return UsageError(f"{name}: {_without_final_stop(message)}", code="setting-value", hint=hint)


def explain_failure(installation: Installation, log_path: Path, log_start: int) -> PgdynoError:
    """Return the error for a server that ended during its start, from its log's new lines."""
    log = log_text(log_path, log_start)
    if "could not bind IPv4 address" in log:
        return SetupError("no free TCP port on 127.0.0.1", code="port-taken")
    decisive = [line for line in log.splitlines() if re.search(r"\b(FATAL|PANIC):", line)]
    if not decisive:
        last = log.strip().splitlines()[-1:] or ["it logged nothing"]
        message, hint = last[0], None
    else:
        message, hint = _message_and_hint(log[log.index(decisive[0]) :])
    return SetupError(
        f"PostgreSQL {installation.version} did not start: {_without_final_stop(message)}",
        code="start-failed",
        hint=hint,
    )


def explain_signal(
    installation: Installation, number: Signals, failure: PgdynoError
) -> PgdynoError:
    """Return ``failure``, or another error if an external signal ended the postmaster."""
    if number in (Signals.SIGABRT, Signals.SIGSEGV, Signals.SIGBUS, Signals.SIGILL, Signals.SIGFPE):
        return failure
    return SetupError(
        f"PostgreSQL {installation.version} was ended by {number.name} while it started",
        code="server-killed",
        hint="the kernel's log shows processes that were killed for lack of memory",
    )


def _message_and_hint(output: str) -> tuple[str, str | None]:
    """Return the first message and its hint, continuation lines joined, without timestamps."""
    fields: dict[str, str] = {}
    current = None
    for line in output.splitlines():
        match = re.search(r"\b(FATAL|PANIC|ERROR|LOG|DETAIL|HINT|CONTEXT|STATEMENT): +(.*)", line)
        if match:
            current = "MESSAGE" if match[1] in ("FATAL", "PANIC", "ERROR") else match[1]
            if current in fields:
                break
            fields[current] = match[2]
        elif current and line.startswith("\t"):
            fields[current] += " " + line.strip()
    return fields.get("MESSAGE", output.strip()), fields.get("HINT")


def _without_final_stop(message: str) -> str:
    return message.removesuffix(".")
