"""One PostgreSQL server that pgdyno starts, watches and takes away again.

A cluster is a folder::

    cluster.json     what it is: version, programs, where its socket lies
    lock             held by the owning pgdyno for as long as it lives
    postgresql.conf  settings, pg_hba.conf beside it: outside the data directory, so that a drill
                     which loses unflushed writes does not lose these
    data/            the data directory (mode 0700, owned by the account that runs the server)
    socket/          the Unix socket (mode 0700 likewise)
    server.log       what the server says

Whoever may enter ``socket/`` is trusted; TCP, on loopback only, asks for a random password.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.account import give, require_reach, server_account
from pgdyno.server.conninfo import ConnInfo
from pgdyno.server.installation import Installation
from pgdyno.server.leftovers import end_leftovers
from pgdyno.server.locks import locked, try_lock
from pgdyno.server.places import clusters_dir
from pgdyno.server.postmaster import Postmaster
from pgdyno.server.startup import check_before_start, explain_failure
from pgdyno.server.template import OWN_NAME, clone_data_directory, runnable

_SOCKET_PATH_BYTES_MAX = 107  # sun_path on Linux, without its final zero byte
_START_TRIES = 5

_HBA = """\
local all all trust
local replication all trust
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
"""


class Cluster:
    """A server of pgdyno's own. Make one with ``create``; as a context manager it starts and ends.

    Not to be shared between threads without a lock of the caller's.
    """

    def __init__(
        self,
        installation: Installation,
        folder: Path,
        settings: Mapping[str, str],
        *,
        lock: int,
        socket_dir: Path,
        keep: bool,
    ) -> None:
        """Internal; use ``create``."""
        self.installation = installation
        self.folder = folder
        self.settings = dict(settings)
        self._lock = lock
        self._keep = keep
        self._socket_dir = socket_dir
        self._password = secrets.token_urlsafe(18)
        self._password_set = False
        self._port = 0
        self._postmaster: Postmaster | None = None

    @classmethod
    def create(
        cls,
        installation: Installation,
        settings: Mapping[str, str] | None = None,
        *,
        keep_dir: Path | None = None,
    ) -> Self:
        """A new cluster, not yet started.

        ``settings`` are checked against the build (UsageError). With ``keep_dir`` the cluster lies
        there, outlives ``destroy``, and is taken up again when one of the same major version is
        there already.
        """
        settings = dict(settings or {})
        check_before_start(installation, settings)
        installation = runnable(installation)
        folder, lock = _claim_folder(keep_dir)
        try:
            _check_kept_version(installation, folder)
            if (folder / "data").exists():
                end_leftovers(folder / "data")
            else:
                clone_data_directory(installation, folder / "data")
            socket_dir = _make_socket_dir(folder)
            description = {
                "version": installation.version,
                "bindir": str(installation.bindir),
                "socket_dir": str(socket_dir),
                "keep": keep_dir is not None,
            }
            (folder / "cluster.json").write_text(json.dumps(description))
        except BaseException:
            os.close(lock)
            if keep_dir is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        keep = keep_dir is not None
        return cls(installation, folder, settings, lock=lock, socket_dir=socket_dir, keep=keep)

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    @property
    def log_path(self) -> Path:
        """What the server logs, all starts in one file."""
        return self.folder / "server.log"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id; ``None`` while it does not run."""
        return self._postmaster.pid if self._postmaster and self._postmaster.running else None

    @property
    def running(self) -> bool:
        """Whether the postmaster runs."""
        return self.pid is not None

    @property
    def conninfo(self) -> ConnInfo:
        """The way in through the Unix socket, as superuser."""
        return ConnInfo(str(self._socket_dir), self._port, OWN_NAME, self._password, OWN_NAME)

    @property
    def conninfo_tcp(self) -> ConnInfo:
        """The way in through loopback TCP, by password."""
        return ConnInfo("127.0.0.1", self._port, OWN_NAME, self._password, OWN_NAME)

    def start(self) -> None:
        """Start the server and wait until it takes connections; SetupError says why it did not."""
        if self.running:
            return
        for last_try in (*[False] * (_START_TRIES - 1), True):
            self._port = self._port or _free_port()
            self._write_configuration()
            log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
            self._postmaster = self._launch()
            if self._postmaster.wait_ready(self.data_dir):
                self._set_password()
                return
            failure = explain_failure(self.installation, self.log_path, log_start)
            self._postmaster.end()
            self._postmaster = None
            if failure.code != "port-taken" or last_try:
                raise failure
            self._port = 0

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Shut down: ``fast`` with a checkpoint, ``immediate`` like a crash."""
        if self._postmaster is not None:
            self._postmaster.stop(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
            self._postmaster = None

    def restart(self) -> None:
        """A fast stop and a start; port, password and data stay."""
        self.stop()
        self.start()

    def forget_settings(self, names: Collection[str]) -> None:
        """Drop what ALTER SYSTEM wrote for ``names``, while the server is down.

        The way back from a setting with which it does not start.
        """
        path = self.data_dir / "postgresql.auto.conf"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if line.split(" ", 1)[0] not in names))

    def kill(self) -> None:
        """``kill -9`` of the postmaster, and wait until its children have left too."""
        if self._postmaster is not None:
            self._postmaster.kill()
            self._postmaster = None

    def destroy(self) -> None:
        """Stop the server at once and remove its folder, unless it is a kept one."""
        if self._lock < 0:
            return
        self.stop("fast" if self._keep else "immediate")
        if self._socket_dir.parent != self.folder:
            shutil.rmtree(self._socket_dir, ignore_errors=True)
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

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
            str(self.installation.program("postgres")),
            "-D",
            str(self.data_dir),
            f"--config_file={self.folder / 'postgresql.conf'}",
        ]
        # What kill -9 left. The lock proves that no other pgdyno has a server in here.
        with contextlib.suppress(FileNotFoundError):
            (self.data_dir / "postmaster.pid").unlink()
        for leftover in self._socket_dir.iterdir():
            leftover.unlink()
        return Postmaster(command, self.log_path, server_account())

    def _write_configuration(self) -> None:
        """What initdb wrote, then what a cluster of pgdyno's needs, then the settings."""
        (self.folder / "pg_hba.conf").write_text(_HBA)
        own = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": str(self._socket_dir),
            "hba_file": str(self.folder / "pg_hba.conf"),
            "password_encryption": "scram-sha-256",
            "log_destination": "stderr",
            "logging_collector": "off",
            "log_checkpoints": "on",
            "cluster_name": OWN_NAME,
        }
        lines = [f"{name} = {_quoted(value)}" for name, value in {**own, **self.settings}.items()]
        base = (self.data_dir / "postgresql.conf").read_text()
        (self.folder / "postgresql.conf").write_text(base + "\n" + "\n".join(lines) + "\n")

    def _set_password(self) -> None:
        if self._password_set:
            return
        import psycopg
        from psycopg import sql

        with psycopg.connect(**self.conninfo.kwargs(), autocommit=True) as conn:
            statement = sql.SQL("alter role {} password {}")
            conn.execute(statement.format(sql.Identifier(OWN_NAME), sql.Literal(self._password)))
        self._password_set = True


def _claim_folder(keep_dir: Path | None) -> tuple[Path, int]:
    """The folder and the descriptor of its held lock."""
    home = clusters_dir()
    folder = keep_dir.absolute() if keep_dir else home / f"{os.getpid()}-{secrets.token_hex(3)}"
    # A sweep holds this lock too, so it never sees a folder whose lock is not yet held.
    with locked(home / ".lock"):
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=keep_dir is not None)
        except OSError as error:
            raise SetupError(
                f"cannot make the directory {folder}: {error.strerror}", code="state-directory"
            ) from error
        lock = try_lock(folder / "lock")
        require_reach(folder)
    if lock is None:
        raise UsageError(f"another pgdyno is using the cluster in {folder}", code="cluster-in-use")
    return folder, lock


def _check_kept_version(installation: Installation, folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        major = (folder / "data/PG_VERSION").read_text().strip()
        if major != str(installation.major):
            raise UsageError(
                f"the cluster in {folder} is of PostgreSQL {major}, not {installation.major}",
                code="pg-version",
                hint="choose its programs with --pg-bindir, or another directory",
            )


def _make_socket_dir(folder: Path) -> Path:
    """A directory that only the server's account and root can enter, with a short enough path."""
    account = server_account()
    directory = folder / "socket"
    if len(os.fsencode(directory / ".s.PGSQL.65535.lock")) > _SOCKET_PATH_BYTES_MAX:
        directory = Path(tempfile.mkdtemp(prefix="pgdyno-", dir="/tmp"))
    directory.mkdir(mode=0o700, exist_ok=True)
    give(directory, account)
    return directory


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
