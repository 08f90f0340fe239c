"""Poolers in front of a server: PgBouncer and pgpool-II, each with a configuration of its own.

``pgbouncer(cluster, pool_mode="transaction")`` and ``pgpool(cluster)`` start one and return it;
whatever a test started ends with the test, by its process ID. They run as the account that runs
the servers, reach them through their Unix socket, and listen on loopback and on a socket of their
own.
"""

from __future__ import annotations

import ctypes
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from patience import PATIENCE_S, wait_until
from pgdyno.server import Cluster, ConnInfo
from pgdyno.server.local.account import (
    ServerAccount,
    change_owner,
    plain_environment,
    server_account,
)
from pgdyno.server.local.programs import find_program, free_ports
from remains import processes_of

_PR_SET_PDEATHSIG = 1
FOLLOWING_POOLER = {
    "pooler": {
        "kind": "pgbouncer",
        "settings": {"pool_mode": "transaction", "server_login_retry": "1"},
    },
    "load": {"protocol": "extended"},
}
"""Fields of a spec whose clients reach the primary through PgBouncer, also after a failover."""


def existing(cluster: Cluster) -> dict[str, Any]:
    """The table server of a spec, for a server that is there already."""
    return {"kind": "existing", "conninfo": cluster.conninfo.uri_without_password}


class Pooler:
    """A pooler process in a folder of its own. Made by the fixtures; ``stop`` may come first."""

    program = ""
    stop_signal = signal.SIGTERM

    def __init__(self, cluster: Cluster, settings: Mapping[str, object]) -> None:
        found = find_program(self.program)
        if found is None:
            pytest.skip(f"no {self.program} on this machine")
        self.cluster = cluster
        self.folder = Path(tempfile.mkdtemp(prefix="pgdyno-pooler-", dir="/tmp"))
        self.folder.chmod(0o700)
        self.port = free_ports(1)[0]
        self.settings = dict(settings)
        self._program = found
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def conninfo(self) -> ConnInfo:
        """Through the pooler's Unix socket."""
        return replace(self.cluster.conninfo, host=str(self.folder), port=self.port)

    @property
    def conninfo_tcp(self) -> ConnInfo:
        """Through the pooler's port on loopback."""
        return replace(self.cluster.conninfo, host="127.0.0.1", port=self.port)

    @property
    def log(self) -> str:
        """What it has said until now."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Its process ID, while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until a connection through it stands."""
        account = server_account()
        command = [self._program, *self.configure(account)]
        for path in self.folder.rglob("*"):
            change_owner(path, account)
        change_owner(self.folder, account)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=plain_environment(),
                user=None if account is None else account.uid,
                group=None if account is None else account.gid,
                extra_groups=None if account is None else (),
                start_new_session=True,
                preexec_fn=self._before_exec,
            )
        self._wait_ready()

    def configure(self, account: ServerAccount | None) -> list[str]:
        """Write the configuration; the arguments to start with."""
        raise NotImplementedError

    def first_look(self) -> dict[str, str]:
        """What to connect with to see that it works, beside its address."""
        return {}

    def stop(self, number: signal.Signals | None = None) -> None:
        """End it and wait for that."""
        if self._process is not None:
            self._process.send_signal(number or self.stop_signal)
            self._process.wait(PATIENCE_S)
            self._process = None

    def destroy(self) -> None:
        """End it and remove its folder."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _before_exec(self) -> None:
        # It goes when the tests are killed, and takes as many connections as the system lets it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, self.stop_signal, 0, 0, 0)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def _wait_ready(self) -> None:
        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"{self.program} did not start:\n{self.log}"
            try:
                psycopg.connect(**self.conninfo.kwargs() | self.first_look()).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(answers, lambda: f"{self.program} answers\n{self.log}")


class PgBouncer(Pooler):
    """``settings`` go to its section [pgbouncer].

    Its databases are the server's of the same name, or those of ``databases``, a mapping from the
    clients' name to the server's.
    """

    program = "pgbouncer"
    # An immediate shutdown; SIGINT would wait for the clients to leave.
    stop_signal = signal.SIGTERM

    def configure(self, account: ServerAccount | None) -> list[str]:
        server = self.cluster.conninfo
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": self.folder,
            "auth_type": "scram-sha-256",
            "auth_file": self.folder / "users",
            "admin_users": server.user,
            "logfile": self.folder / "pgbouncer.log",
            **self.settings,
        }
        place = f"host={server.host} port={server.port}"
        named = settings.pop("databases", None)
        lines = ["[databases]"]
        lines += (
            [f"{n} = {place} dbname={d}" for n, d in named.items()] if named else [f"* = {place}"]
        )
        lines.append("[pgbouncer]")
        lines += [f"{name} = {value}" for name, value in settings.items()]
        (self.folder / "users").write_text(f'"{server.user}" "{server.password}"\n')
        (self.folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        return ["-q", str(self.folder / "pgbouncer.ini")]

    def first_look(self) -> dict[str, str]:
        return {"dbname": "pgbouncer"}

    def show(self, what: str) -> list[dict[str, object]]:
        """Rows of one of the console's SHOW commands."""
        console = replace(self.conninfo, database="pgbouncer")
        with psycopg.connect(
            **console.kwargs(), autocommit=True, cursor_factory=psycopg.ClientCursor
        ) as connection:
            cursor = connection.execute(f"show {what}".encode())
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


class Pgpool(Pooler):
    """pgpool-II in its streaming replication mode with one server; ``settings`` go to its file."""

    program = "pgpool"
    # A fast shutdown: sessions are cut off.
    stop_signal = signal.SIGINT

    def configure(self, account: ServerAccount | None) -> list[str]:
        server = self.cluster.conninfo
        settings = {
            "backend_clustering_mode": "streaming_replication",
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "socket_dir": self.folder,
            "pcp_socket_dir": self.folder,
            "pcp_port": free_ports(1)[0],
            "backend_hostname0": server.host,
            "backend_port0": server.port,
            "pid_file_name": self.folder / "pgpool.pid",
            "logdir": self.folder,
            "work_dir": self.folder,
            "sr_check_period": 0,
            "num_init_children": 8,
            **self.settings,
        }
        lines = [f"{name} = '{value}'" for name, value in settings.items()]
        (self.folder / "pgpool.conf").write_text("\n".join(lines) + "\n")
        (self.folder / "pcp.conf").touch()
        (self.folder / "pool_hba.conf").touch()
        files = [("-f", "pgpool.conf"), ("-F", "pcp.conf"), ("-a", "pool_hba.conf")]
        return ["-n", "-D", *(str(p) for flag, name in files for p in (flag, self.folder / name))]


def _poolers(kind: type[Pooler]) -> Iterator[Callable[..., Pooler]]:
    made: list[Pooler] = []

    def make(cluster: Cluster, **settings: object) -> Pooler:
        pooler = kind(cluster, settings)
        made.append(pooler)
        pooler.start()
        return pooler

    yield make
    for pooler in made:
        pooler.destroy()
    wait_until(lambda: not any(processes_of(pooler.folder) for pooler in made), "no pooler is left")


@pytest.fixture
def pgbouncer() -> Iterator[Callable[..., Pooler]]:
    """Starts PgBouncers for one test: ``pgbouncer(cluster, pool_mode="session")``."""
    yield from _poolers(PgBouncer)


@pytest.fixture
def pgpool() -> Iterator[Callable[..., Pooler]]:
    """Starts pgpool-IIs for one test: ``pgpool(cluster, load_balance_mode="off")``."""
    yield from _poolers(Pgpool)
