"""A node of a Patroni cluster: a server of pgdyno that Patroni starts, stops and promotes.

Patroni works in ``patroni/`` of the server's directory, where it writes the configuration with
which it starts the server, so that the data directory stays usable without it. pgdyno's own
configuration is included in it. The server's log remains the same file.
"""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from pgdyno.errors import RunError, SetupError
from pgdyno.server.local.account import server_account
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.local.guarded import Guarded, log_text
from pgdyno.server.local.leftovers import remove_shared_memory
from pgdyno.server.local.programs import send
from pgdyno.server.local.safefiles import (
    make_directory,
    read_text,
    remove_directory,
    write_text,
)
from pgdyno.server.replication._relay import Relay
from pgdyno.server.replication._rest import RestAnswer, ask

_STOP_S_MAX = 120.0
_CONFIGURATION = "patroni.yml"
# Patroni's cache of the cluster's settings, from which it takes them while none are in its store.
_SEED = "patroni.dynamic.json"
_LOG = "patroni.log"
_COMPLAINTS = (" CRITICAL: ", " FATAL: ", " ERROR: ")


class Common(Struct, frozen=True):
    """The part of the configuration that all nodes of a cluster have in common."""

    program: str
    store: Mapping[str, object]
    """The section of the configuration that names the store."""
    settings: Mapping[str, object]
    """Patroni's dynamic settings when it starts."""
    user: str
    password: str
    """Credentials for connections between the servers, and for changes by the REST interface."""


class PatroniNode:
    """A node; the process of its :class:`Cluster` while Patroni runs it."""

    def __init__(self, name: str, cluster: Cluster, port: int, *, relayed: bool, delay_ms: float):
        """Prepare the start of a stopped server. ``port`` is that of its REST interface. With
        ``relayed`` or a delay, the others reach it through relays."""
        self.name = name
        self.cluster = cluster
        self.port = port
        self.directory = cluster.directory / "patroni"
        self.end_cluster: Callable[[PatroniNode, bool], None] = PatroniNode._end_alone
        """Ends the whole cluster, this node last, in order or (True) at once: without it, a node
        that is shut down would make the others promote one."""
        self.relays: list[Relay] = []
        cluster.prepare_start()
        self._ports = (cluster.conninfo.port, port)
        if relayed or delay_ms:
            targets = [("127.0.0.1", each) for each in self._ports]
            self.relays = [Relay(targets[0], delay_ms=delay_ms), Relay(targets[1])]
            self._ports = (self.relays[0].port, self.relays[1].port)
        self._process: Guarded | None = None
        self._login = ("", "")
        self._log_start = 0
        self._left_suspended = False

    def start(self, common: Common) -> None:
        """Start Patroni on the server's stopped data directory."""
        path = self.cluster.log_path
        self._log_start = path.stat().st_size if path.exists() else 0
        self._login = (common.user, common.password)
        remove_directory(self.directory)
        make_directory(self.directory)
        configuration = self.directory / _CONFIGURATION
        # PostgreSQL logs that it is missing, otherwise.
        write_text(self.directory / "pg_ident.conf", "")
        write_text(configuration, json.dumps(self._configuration(common), indent=1))
        write_text(self.cluster.data_dir / _SEED, json.dumps(common.settings))
        self._process = Guarded(
            [common.program, str(configuration)],
            self.cluster.log_path,
            server_account(),
            end_signal=signal.SIGTERM,
            removes=self.cluster.removable,
        )
        self.cluster.hand_to(self)

    def ask(self, path: str, **options: Any) -> RestAnswer:
        """Ask its REST interface; not through a relay."""
        return ask(self.port, path, login=self._login, **options)

    @property
    def is_primary(self) -> bool:
        """True if it has the leader lock and accepts writes."""
        return self.ask("/primary").ok

    @property
    def is_replica(self) -> bool:
        """True if it is a standby that accepts connections."""
        return self.ask("/replica").ok

    @property
    def last_words(self) -> str:
        """The last complaint in Patroni's log, or the last line that it wrote."""
        lines = self.log.strip().splitlines()
        if self.ended and (said := self.server_log().strip()):
            lines = [said.splitlines()[-1]]
        complaints = [line for line in lines if any(word in line for word in _COMPLAINTS)]
        return (complaints or lines or ["it logged nothing"])[-1]

    @property
    def ended(self) -> bool:
        """True if Patroni has ended by itself."""
        return self._process is not None and not self._process.running

    def server_log(self) -> str:
        """Return the server's log since Patroni took it over, with Patroni's own lines in it."""
        return log_text(self.cluster.log_path, self._log_start)

    @property
    def log(self) -> str:
        """The text that Patroni has logged."""
        return read_text(self.directory / _LOG) or ""

    @property
    def process(self) -> Guarded:
        """The process of Patroni, which runs."""
        assert self._process is not None
        return self._process

    # The members that a Cluster needs of its process.

    @property
    def pid(self) -> int:
        """PID of the postmaster, or of Patroni while there is none."""
        first = (read_text(self.cluster.data_dir / "postmaster.pid") or "").split("\n", 1)[0]
        if first.isdecimal() and Path(f"/proc/{first}").exists():
            return int(first)
        return 0 if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """True if Patroni runs."""
        return self._process is not None and self._process.running

    @property
    def exit_signal(self) -> signal.Signals | None:
        """None: Patroni and not a postmaster is the process."""
        return None

    def wait_ready(self, data_dir: Path, seconds_max: float = math.inf) -> bool:
        """True if the server accepts connections; Patroni, not this, waits for it."""
        return self.is_primary or self.is_replica

    def stop(self, number: signal.Signals) -> None:
        """End the cluster, this node last: in order, or at once for SIGQUIT."""
        if self._process is not None:
            self.end_cluster(self, number == signal.SIGQUIT)

    def _end_alone(self, at_once: bool) -> None:
        if at_once:
            self.kill()
        else:
            self.shut_down()

    def shut_down(self) -> None:
        """Let Patroni shut the server down in fast mode, and end."""
        process, self._process = self._process, None
        if process is not None:
            process.stop(signal.SIGTERM, seconds_max=_STOP_S_MAX)
        remove_shared_memory(self.cluster.data_dir)

    def kill(self) -> list[int]:
        """Send SIGKILL to Patroni and to all processes of the server; return their PIDs."""
        process, self._process = self._process, None
        killed = [] if process is None else process.kill()
        remove_shared_memory(self.cluster.data_dir)
        return killed

    def end(self) -> None:
        """End it at once."""
        self.kill()

    def suspend(self) -> None:
        """Stop Patroni by a signal: its server goes on, and nothing looks after it."""
        assert self._process is not None
        self._left_suspended = True
        send([self._process.pid], signal.SIGSTOP)

    def check(self) -> None:
        """Raise RunError if Patroni has ended by itself, or is stopped by a signal."""
        process = self._process
        if process is None:
            return
        if not process.running:
            raise RunError(
                f"Patroni of {self.name} {process.how_it_ended} during the run: {self.last_words}",
                code="manager-gone",
            )
        if not self._left_suspended and process.is_suspended():
            raise RunError(
                f"Patroni of {self.name} (process {process.pid}) is stopped by a signal",
                code="manager-suspended",
                hint=f"kill -CONT {process.pid} would have let it continue",
            )

    def hold(self) -> None:
        """Cut it off from the other nodes."""
        for relay in self.relays:
            relay.hold()

    def close_relays(self) -> None:
        """Cut all connections of the other nodes to it. May be repeated."""
        for relay in self.relays:
            relay.close()

    def close(self) -> None:
        """End it at once if it still runs, with its relays. May be repeated."""
        self.kill()
        self.close_relays()
        with suppress(SetupError):
            remove_directory(self.directory)

    def _configuration(self, common: Common) -> dict[str, object]:
        """Return Patroni's configuration; YAML includes JSON."""
        server, rest = self._ports
        cluster = self.cluster
        role = {"username": common.user, "password": common.password}
        return {
            "scope": "pgdyno",
            "name": self.name,
            "log": {"dir": str(self.directory), "level": "INFO"},
            "restapi": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{rest}",
                "authentication": role,
            },
            **common.store,
            "postgresql": {
                "listen": f"127.0.0.1:{cluster.conninfo.port}",
                "connect_address": f"127.0.0.1:{server}",
                "data_dir": str(cluster.data_dir),
                "config_dir": str(self.directory),
                "custom_conf": str(cluster.directory / "postgresql.conf"),
                "bin_dir": str(cluster.installation.bindir),
                "pgpass": str(self.directory / "pgpass"),
                "use_unix_socket": True,
                # It makes Patroni start a base backup in single-user mode first, in vain.
                "use_pg_rewind": False,
                "authentication": dict.fromkeys(("superuser", "replication", "rewind"), role),
                "parameters": {
                    "unix_socket_directories": cluster.conninfo.host,
                    "hba_file": str(cluster.directory / "pg_hba.conf"),
                    # The moments of a failover are read from the log.
                    "log_line_prefix": "%m [%p] ",
                    "log_timezone": "UTC",
                },
            },
            "watchdog": {"mode": "off"},
        }
