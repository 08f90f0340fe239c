"""The process of one pooler, from its configuration to its end.

Its directory is one of those that are swept after a crash of pgdyno:

    PID-RANDOM/          lock, cluster.json, pooler.log
    PID-RANDOM/socket/   configuration, passwords, sockets: mode 0700, of the pooler's account
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from pgdyno.errors import Interrupted, RunError, SetupError
from pgdyno.json_types import Row
from pgdyno.pooler._kind import Kind, PoolerPlace, Version, check_names, clients_of, version_in
from pgdyno.redact import blank
from pgdyno.server import ConnInfo, connect_plain
from pgdyno.server.local.account import run_as, server_account
from pgdyno.server.local.guarded import Guarded, log_text
from pgdyno.server.local.layout import claim_directory, describe, make_socket_dir
from pgdyno.server.local.programs import find_program, send
from pgdyno.server.local.safefiles import remove_own_directory
from pgdyno.spec import Spec

_READY_S_MAX = 20.0
_POLL_S = 0.01
_VERSION_S_MAX = 10.0
_UNIX_FIELDS = 8
_CONNECTING = b"02"
_STOP_S_MAX = 5.0
_LOG_BYTES_MAX = 64 << 10
_NOT_YET = ("no-server", "pooler-silent")
"""Codes of errors while the pooler does not listen yet."""
# Everything that the system permits, because a pooler needs a file for each client.
_ALL_FILES = 'ulimit -n "$(ulimit -Hn)"; exec "$@"'


def installed(kind: Kind) -> str:
    """Return the path of the pooler's program. Raises SetupError, which names the package."""
    found = find_program(kind.program)
    if found is None:
        debian, rpm = kind.packages
        raise SetupError(
            f"{kind.title} is not installed",
            code="pooler-missing",
            hint=f"apt-get install {debian}, or dnf install {rpm}",
        )
    return found


def version_of(kind: Kind) -> Version:
    """Return the version of the installed program."""
    command = [installed(kind), kind.version_option]
    answer = run_as(server_account(), command, seconds_max=_VERSION_S_MAX)
    return version_in(answer.stdout + answer.stderr)


class PoolerProcess:
    """A running pooler. ``close`` ends it and removes its directory."""

    def __init__(self, kind: Kind, spec: Spec, upstream: ConnInfo) -> None:
        """Start it, and wait until a connection through it works. Raises SetupError."""
        self.kind = kind
        self.version = version_of(kind)
        self._settings = dict(spec.pooler.settings)
        check_names(kind, self._settings)
        kind.check(spec, self.version)
        self._program = installed(kind)
        self._process: Guarded | None = None
        self._directory, self._lock = claim_directory(None)
        self._place = PoolerPlace(
            directory=self._directory / "socket",
            upstream=upstream,
            settings=self._settings,
            clients=clients_of(spec),
            version=self.version,
        )
        try:
            self._place = replace(self._place, directory=make_socket_dir(self._directory))
            describe(self._directory, {"socket_dir": str(self._place.directory)})
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.kind.title} {'.'.join(map(str, self.version[:3]))}"

    @property
    def conninfo(self) -> ConnInfo:
        """Connection values for the clients."""
        host, port = self.kind.entrance(self._place)
        behind = self._place.upstream
        options = {
            name: value
            for name, value in behind.options.items()
            if name in ("options", "client_encoding", "connect_timeout")
        }
        here = replace(behind, host=host, port=port, hostaddr=None, hosts=(), encrypted=False)
        return replace(here, options=options)

    @property
    def pid(self) -> int:
        """PID of its first process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """The end of its log, without passwords."""
        path = self._directory / "pooler.log"
        return blank(log_text(path, bytes_max=_LOG_BYTES_MAX)) if path.exists() else ""

    def queues(self) -> list[Row]:
        """Return its queues now, as rows of metric_pooler. Any error means that it cannot be
        told."""
        rows = self.kind.queues(self._place, self.conninfo)
        unaccepted = _listen_queue(self._socket)
        return [{**row, "listen_queue": 0 if n else unaccepted} for n, row in enumerate(rows)]

    def check(self) -> None:
        """Raise RunError if it has ended by itself, or does nothing any more."""
        process = self._process
        if process is None:
            return
        if not process.running:
            raise RunError(
                f"{self.title} {process.how_it_ended} during the run: {self._last_words()}",
                code="pooler-gone",
                hint="its log is in the run file: pgdyno show",
            )
        if process.is_suspended():
            raise RunError(
                f"{self.title} (process {process.pid}) is stopped by a signal and answers nobody",
                code="pooler-suspended",
                hint=f"kill -CONT {process.pid} would have let it continue",
            )

    def follow(self, before: Spec, after: Spec) -> None:
        """Change its settings while it runs, where the kind says that it can. Raises SetupError."""
        self.kind.follow(self.conninfo, before, after)
        self._settings = dict(after.pooler.settings)
        self._place = replace(self._place, settings=self._settings)

    def move_to(self, upstream: ConnInfo) -> None:
        """Let it connect to another server from now on, without losing its clients."""
        assert self.kind.reload_signal is not None
        self._place = replace(self._place, upstream=upstream)
        self.kind.configure(self._place)
        send([self.pid], self.kind.reload_signal)

    def close(self) -> None:
        """End it and remove its directory. May be repeated."""
        if self._lock < 0:
            return
        try:
            self._end_and_remove()
        except Interrupted:  # Further stop signals are ignored after the first.
            self._end_and_remove()
            raise
        finally:
            os.close(self._lock)
            self._lock = -1

    def _end_and_remove(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(SetupError):  # One that hangs has been killed.
                process.stop(self.kind.stop_signal(self.version), seconds_max=_STOP_S_MAX)
            self.kind.clean_up(process.pid)
        if self._place.directory.parent != self._directory:
            remove_own_directory(self._place.directory)
        remove_own_directory(self._directory)

    def _start(self) -> None:
        command = [self._program, *self.kind.configure(self._place)]
        self._process = Guarded(
            ["/bin/sh", "-c", _ALL_FILES, "sh", *command],
            self._directory / "pooler.log",
            server_account(),
            end_signal=self.kind.guard_signal,
            removes=self._directory,
        )
        deadline_s = time.monotonic() + _READY_S_MAX
        while (problem := self._problem()) is not None:
            if problem.code not in _NOT_YET or time.monotonic() > deadline_s:
                raise problem
            time.sleep(_POLL_S)

    def _problem(self) -> SetupError | None:
        """Return why a connection through it does not work, or ``None`` if it does."""
        import psycopg

        assert self._process is not None
        running, listens = self._process.running, self._listens()
        refused = self.kind.refused(self.log, self._place)
        if not running or (refused is not None and refused[0] is not None):
            return self._complaint(*(refused or (None, self._last_words())))
        if not listens:
            return self._silence("listen")
        try:
            connect_plain(self.conninfo).close()
            ignored = self.kind.ignored(self._place, self.conninfo)
        except SetupError as problem:
            problem.message = f"through {self.title}: {problem.message}"
            return problem
        except psycopg.Error:
            return self._silence("answer")
        return None if ignored is None else self._complaint(*ignored)

    def _silence(self, verb: str) -> SetupError:
        return SetupError(
            f"{self.title} did not {verb} within {_READY_S_MAX:g} s: {self._last_words()}",
            code="pooler-silent",
        )

    def _listens(self) -> bool:
        """True if its socket is there, which it makes last."""
        return self._socket.exists()

    @property
    def _socket(self) -> Path:
        place = self._place
        return place.directory / f".s.PGSQL.{self.kind.entrance(place)[1]}"

    def _complaint(self, name: str | None, complaint: str) -> SetupError:
        """Return the error for the complaint in its log, about a setting or something else."""
        given = self._settings.get(name or "")
        what = f"pooler.settings.{name} = {given}: " if given is not None else ""
        return SetupError(
            f"{what}{self.title} cannot be used: {complaint}",
            code="pooler-setting",
            hint=f"the settings' names and values are those of {self.kind.title}",
        )

    def _last_words(self) -> str:
        lines = self.log.strip().splitlines()
        return lines[-1] if lines else "it logged nothing"


def _listen_queue(listener: Path) -> int:
    """Return how many connections to a Unix socket its program has not accepted yet.

    The kernel lists each of them as connecting, under the path at which the socket was made: the
    socket's own one, or, of HAProxy, one that begins with it.
    """
    wanted = os.fsencode(listener)
    with Path("/proc/net/unix").open("rb") as rows:
        fields = (row.split(None, 7) for row in rows)
        return sum(
            len(each) == _UNIX_FIELDS and each[7].startswith(wanted) and each[5] == _CONNECTING
            for each in fields
        )
