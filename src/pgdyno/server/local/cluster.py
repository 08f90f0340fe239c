"""A PostgreSQL server that pgdyno starts, watches and removes.

layout.py describes its directory. Connections through ``socket/`` are trusted; TCP, on loopback
only, requires a random password.
"""

from __future__ import annotations

import math
import os
import secrets
import signal
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct

from pgdyno.errors import Interrupted, RunError, UsageError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.connecting.conninfo import OWN_NAME, ConnInfo
from pgdyno.server.local._installation import Installation
from pgdyno.server.local._template import runnable
from pgdyno.server.local._wal_directory import last_segment, move_wal, real_wal_dir
from pgdyno.server.local.account import server_account
from pgdyno.server.local.controldata import ControlData, control_data
from pgdyno.server.local.guarded import last_line
from pgdyno.server.local.layout import (
    DiskDirectories,
    Disks,
    OwnDirectory,
    check_kept_cluster,
    claim_directory,
    keep_from_now_on,
    make_socket_dir,
    mark_beginning,
    prepare_data_directory,
    remove_beginning,
    set_checksums,
    write_description,
)
from pgdyno.server.local.leftovers import remove_shared_memory
from pgdyno.server.local.programs import free_ports
from pgdyno.server.local.safefiles import (
    as_server_account_in,
    remove_own_directory,
    require_text,
    write_own,
    write_text,
)
from pgdyno.server.local.startup import (
    Postmaster,
    ServerProcess,
    check_before_start,
    explain_failure,
    explain_signal,
)
from pgdyno.server.settings.reloading import reload

_START_TRIES = 5

_HBA = """\
local all all trust
local replication all trust
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
"""


class Home(Struct, frozen=True):
    """A data directory, and the binaries and settings of the server that runs in it."""

    installation: Installation
    data_dir: Path
    settings: Mapping[str, str]


class Cluster:
    """A server of pgdyno. ``create`` makes one; as a context manager it is started and destroyed.

    Not thread-safe.
    """

    def __init__(
        self,
        installation: Installation,
        directory: Path,
        settings: Mapping[str, str],
        *,
        lock: int,
        keep: bool,
    ) -> None:
        """Internal; use ``create``."""
        self.installation = installation
        self.directory = directory
        self.settings = dict(settings)
        self._lock = lock
        self._keep = keep
        self._disk_directories: DiskDirectories = OwnDirectory()
        self._data_dir = directory / "data"
        self._wal_parent: Path | None = None
        self._socket_dir = directory / "socket"
        self._password = secrets.token_urlsafe(18)
        self._password_set = False
        self._port = 0
        self._postmaster: ServerProcess | None = None
        self._ended_by: signal.Signals | None = None
        self._homes = 1

    @classmethod
    def create(
        cls,
        installation: Installation,
        settings: Mapping[str, str] | None = None,
        *,
        keep_dir: Path | None = None,
        begins: bool = False,
        disks: Disks | None = None,
        checksums: bool | None = None,
        source: Path | None = None,
    ) -> Self:
        """Create a cluster, not yet started.

        ``settings`` are checked against the build (UsageError). With ``keep_dir`` the cluster is in
        that directory and ``destroy`` keeps it; an existing one of the same major version is used
        again. One that ``begins`` is kept only from ``keep_from_now_on`` on; until then it is
        removed, by ``destroy`` or, after a kill, when it begins again.

        ``disks`` is called with the cluster's directory and returns those of data and WAL;
        ``destroy`` closes them. ``checksums`` turns data checksums on or off (``None``: initdb's
        default). The data directory is a copy of ``source`` (no server may run in it) if given,
        unless the disk for it already contains one.
        """
        settings = dict(settings or {})
        check_before_start(installation, settings)
        installation = runnable(installation)
        directory, lock = claim_directory(keep_dir)
        cluster = cls(installation, directory, settings, lock=lock, keep=keep_dir is not None)
        try:
            if cluster._keep:
                check_kept_cluster(directory, disks=disks is not None, source=source)
                if begins:
                    mark_beginning(directory)
                else:
                    keep_from_now_on(directory)
            cluster._prepare(disks, checksums, source)
        except BaseException:
            cluster.destroy()
            raise
        return cluster

    def _prepare(self, disks: Disks | None, checksums: bool | None, source: Path | None) -> None:
        """Create everything in the cluster's directory that a start needs."""
        if disks is not None:
            self._disk_directories = disks(self.directory)
            self._wal_parent = self._disk_directories.wal
        self._data_dir = prepare_data_directory(
            self.installation,
            self.directory,
            self._disk_directories,
            checksums=checksums,
            source=source,
        )
        self._socket_dir = make_socket_dir(self.directory)
        write_description(
            self.directory, self.installation, self._data_dir, self._socket_dir, keep=self._keep
        )

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self._data_dir

    def control_data(self) -> ControlData:
        """Return the contents of the control file."""
        return control_data(self.installation, self._data_dir)

    @property
    def wal_dir(self) -> Path:
        """The directory that contains the WAL, links resolved."""
        return real_wal_dir(self._data_dir)

    @property
    def separate_wal_dir(self) -> Path | None:
        """The WAL's directory if pgdyno put it outside the data directory, else ``None``.

        It does not depend on the present link in the data directory.
        """
        return None if self._wal_parent is None else self._wal_parent / "pg_wal"

    @property
    def log_path(self) -> Path:
        """The server's log, one file for all starts."""
        return self.directory / "server.log"

    @property
    def removable(self) -> Path | None:
        """The directory, if it goes when pgdyno is killed: it is not kept, and has no disks, which
        a sweep closes before."""
        disks = self._disk_directories
        has_disks = disks.data is not None or disks.wal is not None
        return None if self._keep or has_disks else self.directory

    @property
    def pid(self) -> int | None:
        """The postmaster's PID; ``None`` while it does not run."""
        return self._postmaster.pid if self._postmaster and self._postmaster.running else None

    @property
    def running(self) -> bool:
        """True if the postmaster runs."""
        return self.pid is not None

    @property
    def ended_by(self) -> signal.Signals | None:
        """The external signal that has ended the postmaster since the last start."""
        return self._ended_by if self.running else self._forget_postmaster()

    def check(self) -> None:
        """Raise RunError if the server has ended by itself: it is not started again."""
        process = self._postmaster
        if process is None or process.running:
            return
        number = process.exit_signal
        how = f"was ended by {number.name}" if number else "has ended"
        raise RunError(
            f"PostgreSQL {self.installation.version} {how} during the run:"
            f" {last_line(self.log_path)}",
            code="server-gone",
        )

    def _forget_postmaster(self) -> signal.Signals | None:
        """Forget a postmaster that has ended, except the signal that ended it."""
        if self._postmaster is not None:
            self._ended_by, self._postmaster = self._postmaster.exit_signal, None
        return self._ended_by

    @property
    def conninfo(self) -> ConnInfo:
        """Connection values for the Unix socket, as superuser."""
        return ConnInfo(str(self._socket_dir), self._port, OWN_NAME, self._password, OWN_NAME)

    @property
    def conninfo_tcp(self) -> ConnInfo:
        """Connection values for TCP on loopback, with the password, which is set on first use.

        Setting it earlier would be a write: a server that is started after a crash must not assign
        the lost transaction IDs again before the drill has checked it.
        """
        if self.running:
            self._set_password()
        return ConnInfo("127.0.0.1", self._port, OWN_NAME, self._password, OWN_NAME)

    def start(self, *, seconds_max: float = math.inf) -> None:
        """Start the server and wait until it accepts connections; SetupError if it does not.

        ``seconds_max`` limits the wait of servers that depend on another one, such as standbys;
        recovery itself has no limit.
        """
        if self.running:
            return
        # The data directory may have been restored or rebuilt since.
        self._password_set = False
        self._ended_by = None
        for last_try in (*[False] * (_START_TRIES - 1), True):
            self.prepare_start()
            log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
            self._postmaster = self._launch()
            if self._postmaster.wait_ready(self.data_dir, seconds_max):
                return
            failure = explain_failure(self.installation, self.log_path, log_start)
            self._ended_by = self._postmaster.exit_signal
            self._postmaster.end()
            self._postmaster = None
            if self._ended_by is not None:
                failure = explain_signal(self.installation, self._ended_by, failure)
            if failure.code != "port-taken" or last_try:
                raise failure
            self._port = 0

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Shut down: ``fast`` with a checkpoint, ``immediate`` as in a crash."""
        if self._postmaster is not None:
            self._postmaster.stop(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
            self._forget_postmaster()

    def restart(self) -> None:
        """Stop in fast mode and start again, with the same port and password."""
        self.stop()
        self.start()

    def hand_to(self, process: ServerProcess) -> None:
        """Let ``process``, which has been started, run the server until it is stopped or killed."""
        self._postmaster = process

    def prepare_start(self) -> None:
        """Choose a port if it has none, write its configuration, and remove what was left of a
        server that was killed: all that a start needs."""
        self._port = self._port or free_ports(1)[0]
        self._write_configuration()
        # The lock proves that no other pgdyno runs a server here.
        with as_server_account_in(self.data_dir):
            (self.data_dir / "postmaster.pid").unlink(missing_ok=True)
        with as_server_account_in(self._socket_dir):
            for leftover in self._socket_dir.iterdir():
                leftover.unlink()

    def configure(self, changes: Mapping[str, str | None]) -> None:
        """Change ``settings`` in postgresql.conf, which ALTER SYSTEM overrides; ``None`` removes.

        A running server has reloaded them when this returns; some take effect after a restart.
        """
        settings = {name: value for name, value in self.settings.items() if name not in changes}
        settings |= {name: value for name, value in changes.items() if value is not None}
        if settings == self.settings:
            return
        self.settings = settings
        if self.running:
            self._write_configuration()
            with connect(self.conninfo) as conn:
                reload(conn)

    def forget_settings(self, names: Collection[str]) -> None:
        """Remove ALTER SYSTEM's values for ``names`` while the server is down.

        It undoes a setting with which the server does not start.
        """
        path = self.data_dir / "postgresql.auto.conf"
        lines = require_text(path).splitlines(keepends=True)
        write_text(path, "".join(line for line in lines if line.split(" ", 1)[0] not in names))

    def move_wal(self, to: Path | None) -> None:
        """Move the WAL to ``pg_wal`` in the directory ``to``; ``None``: into the data directory.

        Raises UsageError while the server runs. The server's account must be able to make
        directories in ``to``, which belongs to the caller.
        """
        if self.running:
            raise UsageError("the WAL cannot be moved while the server runs", code="server-runs")
        last = last_segment(self.installation, self._data_dir)
        move_wal(self._data_dir, to, last=last)
        self._wal_parent = to

    @property
    def home(self) -> Home:
        """The data directory in which it runs, or would start."""
        return Home(self.installation, self._data_dir, dict(self.settings))

    def add_home(
        self, installation: Installation, settings: Mapping[str, str], *, checksums: bool | None
    ) -> Home:
        """Create a new data directory beside the present one, for ``move_to``.

        ``settings`` are checked against the build (UsageError). A cluster whose WAL has a disk of
        its own has one data directory only.
        """
        if self._wal_parent is not None:
            raise UsageError(
                "the WAL has a disk of its own, which only one data directory can use",
                code="one-data-directory",
                hint="leave disk.wal out; disk.data may be any disk",
            )
        check_before_start(installation, settings)
        installation = runnable(installation)
        self._homes += 1
        data_dir = prepare_data_directory(
            installation,
            self.directory,
            self._disk_directories,
            checksums=checksums,
            source=None,
            number=self._homes,
        )
        return Home(installation, data_dir, dict(settings))

    def move_to(self, home: Home) -> None:
        """Run in another data directory from the next start on, at the same address.

        Raises UsageError while the server runs.
        """
        if self.running:
            raise UsageError("the data directory is in use", code="server-runs")
        self.installation, self._data_dir = home.installation, home.data_dir
        self.settings = dict(home.settings)
        # Before it starts: what a sweep ends is described there.
        write_description(
            self.directory, self.installation, self._data_dir, self._socket_dir, keep=self._keep
        )

    def set_checksums(self, *, wanted: bool) -> None:
        """Turn data checksums on or off; turning them on rewrites every page.

        Raises UsageError while the server runs, SetupError if it was not shut down cleanly.
        """
        if self.running:
            raise UsageError(
                "data checksums cannot be changed while the server runs", code="server-runs"
            )
        set_checksums(self.installation, self._data_dir, wanted=wanted)

    def kill(self) -> list[int]:
        """Send SIGKILL to all of the server's processes; return their PIDs once they have ended."""
        if self._postmaster is None or not self.running:
            self._forget_postmaster()
            return []
        killed = self._postmaster.kill()
        self._postmaster = None
        remove_shared_memory(self._data_dir)
        return killed

    def keep_from_now_on(self) -> None:
        """Keep the directory of a cluster that began: its files are needed."""
        keep_from_now_on(self.directory)

    def destroy(self) -> None:
        """Stop the server, close its disks and remove its directory, unless it is kept.

        If a disk cannot be closed, its error is raised and the directory stays for the next sweep.
        """
        if self._lock < 0:
            return
        try:
            self._stop_and_remove()
        except Interrupted:  # Further stop signals are ignored after the first.
            self._stop_and_remove()
            raise
        finally:
            os.close(self._lock)
            self._lock = -1

    def _stop_and_remove(self) -> None:
        self.stop("fast" if self._keep else "immediate")
        if self._socket_dir.parent != self.directory:
            remove_own_directory(self._socket_dir)
        self._disk_directories.close()
        if self._keep:
            remove_beginning(self.directory)
        else:
            remove_own_directory(self.directory)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.destroy()

    def _launch(self) -> Postmaster:
        command = [
            str(self.installation.binary("postgres")),
            "-D",
            str(self.data_dir),
            f"--config_file={self.directory / 'postgresql.conf'}",
        ]
        return Postmaster(command, self.log_path, server_account(), removes=self.removable)

    @property
    def configured(self) -> dict[str, str]:
        """The settings that pgdyno needs, and ``settings``; beside them initdb's are in force."""
        own = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": str(self._socket_dir),
            "hba_file": str(self.directory / "pg_hba.conf"),
            "password_encryption": "scram-sha-256",
            "log_destination": "stderr",
            "logging_collector": "off",
            "log_checkpoints": "on",
            "cluster_name": OWN_NAME,
        }
        return {**own, **self.settings}

    def _write_configuration(self) -> None:
        """Write initdb's settings, then those that pgdyno needs, then ``settings``."""
        write_own(self.directory / "pg_hba.conf", _HBA, readable_by_server=True)
        lines = [f"{name} = {quoted(value)}" for name, value in self.configured.items()]
        base = require_text(self.data_dir / "postgresql.conf")
        content = base + "\n" + "\n".join(lines) + "\n"
        write_own(self.directory / "postgresql.conf", content, readable_by_server=True)

    def _set_password(self) -> None:
        if self._password_set:
            return
        from psycopg import sql

        with connect(self.conninfo) as conn:
            statement = sql.SQL("alter role {} password {}")
            conn.execute(statement.format(sql.Identifier(OWN_NAME), sql.Literal(self._password)))
        self._password_set = True


def quoted(value: str) -> str:
    """Return a value quoted for a configuration file."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
