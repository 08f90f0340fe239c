"""``pg_receivewal --synchronous``: a receiver of WAL that commits can wait for, without a standby.

It flushes received WAL at once and reports it: a primary that has lost its WAL can be given back
every commit that waited for it. It applies nothing, so ``remote_apply`` would wait for ever.

The WAL is stored in ``receivewal/`` of the primary's directory, outside the data directory and its
disks, as segments and one ``.partial``. The process ends with pgdyno as a server does.
"""

from __future__ import annotations

import signal
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.local.account import give, server_account
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.local.guarded import Guarded
from pgdyno.server.local.logtext import last_line
from pgdyno.server.local.safefiles import (
    copy_file,
    make_directory,
    remove_directory,
    working_in,
    write_own,
)
from pgdyno.server.replication._relay import Relay
from pgdyno.server.replication._slots import Lag, drop_slot, lag_of, make_slot, wait_reached

_PARTIAL = ".partial"


class WalReceiver:
    """One pg_receivewal of a primary; ``name`` is its application_name and that of its slot."""

    def __init__(self, primary: Cluster, name: str, *, delay_ms: float = 0.0) -> None:
        self.primary = primary
        self.name = name
        self.directory = primary.directory / "receivewal"
        self.relay: Relay | None = None
        if delay_ms:
            there = primary.conninfo_tcp
            self.relay = Relay((there.host, there.port), delay_ms=delay_ms)
        self._log_path = primary.directory / "receivewal.log"
        self._process: Guarded | None = None

    @property
    def running(self) -> bool:
        """True if it receives, or tries to."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Receive from now on: from the last checkpoint's redo point, as its slot has it."""
        remove_directory(self.directory)
        make_directory(self.directory)
        make_slot(self.primary, self.name)
        command = [
            str(self.primary.installation.binary("pg_receivewal")),
            f"--directory={self.directory}",
            f"--dbname={self._source()}",
            f"--slot={self.name}",
            "--synchronous",
            "--no-password",
        ]
        self._process = Guarded(command, self._log_path, server_account())

    def wait_caught_up(self) -> None:
        """Wait until it has flushed all that the primary has written by now; SetupError if not."""
        wait_reached(self.primary, self.name, replayed=False, alive=self._trouble)

    def lag(self) -> Lag | None:
        """How far it is behind, as the primary sees it; ``None`` while it is not connected."""
        return lag_of(self.primary, self.name)

    def stop(self) -> None:
        """End it; what it received stays."""
        if self._process is not None:
            self._process.stop(signal.SIGINT)
            self._process = None

    def destroy(self) -> None:
        """End it and remove what it received, and its slot if the primary still runs."""
        try:
            self.stop()
            drop_slot(self.primary, self.name)
        finally:
            if self.relay is not None:
                self.relay.close()
            remove_directory(self.directory)

    def give_back(self, wal_dir: Path) -> list[str]:
        """Put what was received into ``wal_dir``, of a server that does not run; its segments.

        What is there under such a name is replaced; the unfinished segment loses its ``.partial``.
        """
        with working_in(wal_dir):
            received = sorted(self.directory.iterdir())
            given = [path.name.removesuffix(_PARTIAL) for path in received]
            for path, name in zip(received, given, strict=True):
                copy_file(path, wal_dir / name)
        if not given:
            raise SetupError(f"{self.name} has received no WAL", code="no-wal")
        return given

    def _source(self) -> str:
        """The primary as libpq has it; the password, if needed, in a file of the account's."""
        there = self.primary.conninfo if self.relay is None else self.primary.conninfo_tcp
        port = there.port if self.relay is None else self.relay.port
        if self.relay is None:
            return there.client_conninfo(port=port, application_name=self.name)
        passfile = self.primary.directory / "receivewal.pgpass"
        write_own(passfile, f"*:*:*:*:{there.password}\n")
        give(passfile, server_account())
        return there.client_conninfo(port=port, application_name=self.name, passfile=str(passfile))

    def _trouble(self) -> str | None:
        if self.running:
            return None
        return f"it has ended: {last_line(self._log_path)}"
