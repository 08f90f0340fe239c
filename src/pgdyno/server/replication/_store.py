"""The store in which the nodes of a Patroni cluster keep who is the leader: one local member.

It is etcd. Where that is not installed it is Patroni's own raft, in a ``patroni_raft_controller``:
the nodes use it as they would use etcd, and do not vote themselves, so that one of two can fail.

Its directory is in that of the primary, so that a sweep removes it too.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.local.account import server_account
from pgdyno.server.local.guarded import Guarded, last_line, log_text
from pgdyno.server.local.programs import find_program, free_ports
from pgdyno.server.local.safefiles import make_directory, remove_directory, write_text
from pgdyno.server.replication._rest import ask

_READY_S_MAX = 30.0
_STOP_S_MAX = 5.0
_POLL_S = 0.02
_ANSWER_S_MAX = 1.0
_STARTS = 5
_PORT_TAKEN = "address already in use"


class Store(ABC):
    """A running store. ``close`` ends it and removes its directory."""

    name: str
    program: str
    relayed: bool
    """True if nodes can be made to use it through a relay, which can stall."""
    hint: str | None = None
    """Hint for one that does not start."""

    def __init__(self, home: Path) -> None:
        """Start it below ``home``; return when it answers. Raises SetupError."""
        self._directory = home / self.name
        self._log_path = home / f"{self.name}.log"
        program = find_program(self.program) or self.program
        for last_try in (*[False] * (_STARTS - 1), True):
            remove_directory(self._directory)
            make_directory(self._directory)
            self.port, peers = free_ports(2)
            log_start = self._log_path.stat().st_size if self._log_path.exists() else 0
            command = [program, *self._arguments(peers)]
            self.process = Guarded(
                command, self._log_path, server_account(), end_signal=signal.SIGTERM
            )
            if self._becomes_ready():
                return
            said = log_text(self._log_path, log_start)
            self.close()
            if last_try or _PORT_TAKEN not in said.lower():
                raise SetupError(
                    f"{self.name} does not start: {self.last_words}",
                    code="manager-store",
                    hint=self.hint,
                )

    @property
    def last_words(self) -> str:
        """The last line of its log."""
        return last_line(self._log_path)

    def close(self) -> None:
        """End it and remove its directory. May be repeated."""
        with suppress(SetupError):  # One that hangs has been killed.
            self.process.stop(signal.SIGTERM, seconds_max=_STOP_S_MAX)
        remove_directory(self._directory)

    @abstractmethod
    def section(self, port: int) -> dict[str, object]:
        """Return the section of a node's configuration that names the store, at this port."""

    @abstractmethod
    def _arguments(self, peers: int) -> list[str]:
        """Return the program's arguments; ``peers`` is a port for members among themselves."""

    @abstractmethod
    def _answers(self) -> bool: ...

    def _becomes_ready(self) -> bool:
        deadline_s = time.monotonic() + _READY_S_MAX
        while self.process.running and time.monotonic() < deadline_s:
            if self._answers():
                return True
            time.sleep(_POLL_S)
        return False


class Etcd(Store):
    """etcd with one member."""

    name = "etcd"
    program = "etcd"
    relayed = True

    def section(self, port: int) -> dict[str, object]:
        """As proxies, so that Patroni does not ask etcd for its addresses and go around a relay."""
        return {"etcd3": {"hosts": [f"127.0.0.1:{port}"], "use_proxies": True}}

    def _arguments(self, peers: int) -> list[str]:
        clients, between = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{peers}"
        return [
            f"--data-dir={self._directory / 'data'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={between}",
            f"--initial-advertise-peer-urls={between}",
            f"--initial-cluster=default={between}",
            "--logger=zap",
            "--log-level=warn",
        ]

    def _answers(self) -> bool:
        return ask(self.port, "/health").says("health", "true")


class Raft(Store):
    """Patroni's own raft with one member."""

    name = "raft"
    program = "patroni_raft_controller"
    relayed = False
    hint = "Patroni's raft needs python3-pysyncobj; or use etcd: apt-get install etcd-server"

    def section(self, port: int) -> dict[str, object]:
        """Without an address of its own, a node does not vote."""
        return {"raft": {"partner_addrs": [f"127.0.0.1:{port}"]}}

    def _arguments(self, peers: int) -> list[str]:
        configuration = self._directory / "raft.yml"
        raft = {"data_dir": str(self._directory), "self_addr": f"127.0.0.1:{self.port}"}
        write_text(configuration, json.dumps({"scope": "pgdyno", "name": "store", "raft": raft}))
        return [str(configuration)]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), _ANSWER_S_MAX).close()
        except OSError:
            return False
        return True


def installed_store() -> type[Store] | None:
    """Return the store to use: etcd, otherwise raft; None if neither is installed."""
    return next((each for each in (Etcd, Raft) if find_program(each.program)), None)
