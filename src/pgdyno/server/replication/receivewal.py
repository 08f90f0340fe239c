"""``pg_receivewal --synchronous``: a receiver of WAL that commits can wait for, without a standby.

It flushes received WAL immediately and reports the position, so every commit that waited for it can
be restored to a primary that has lost its WAL. It does not replay WAL, so ``remote_apply`` would
wait forever.

The WAL is stored in ``receivewal/`` of the primary's directory, outside the data directory and its
disks, as segments and one ``.partial`` file. The process ends with pgdyno, as a server does.
"""

from __future__ import annotations

import signal
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.local.account import change_owner, server_account
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.local.guarded import Guarded, last_line
from pgdyno.server.local.safefiles import (
    as_server_account_in,
    copy_file,
    make_directory,
    remove_directory,
    write_own,
)
from pgdyno.server.replication._relay import Relay
from pgdyno.server.replication._slots import Lag, drop_slot, lag_of, make_slot, wait_reached

_PARTIAL = ".partial"


class WalReceiver:
    """A pg_receivewal of a primary; ``name`` is its application_name and its slot's name."""

    def __init__(self, primary: Cluster, name: str, *, delay_ms: float = 0.0) -> None:
        self.primary = primary
        self.name = name
        self.directory = primary.directory / "receivewal"
        self.relay: Relay | None = None
        if delay_ms:
            source = primary.conninfo_tcp
            self.relay = Relay((source.host, source.port), delay_ms=delay_ms)
        self._log_path = primary.directory / "receivewal.log"
        self._process: Guarded | None = None

    @property
    def running(self) -> bool:
        """True if the process runs."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start receiving, from the slot's restart position (the last checkpoint's redo point)."""
        remove_directory(self.directory)
        make_directory(self.directory)
        make_slot(self.primary, self.name)
        command = [
            str(self.primary.installation.program("pg_receivewal")),
            f"--directory={self.directory}",
            f"--dbname={self._source()}",
            f"--slot={self.name}",
            "--synchronous",
            "--no-password",
        ]
        self._process = Guarded(command, self._log_path, server_account())

    def wait_caught_up(self) -> None:
        """Wait until it has flushed all WAL written so far; SetupError if it fails."""
        wait_reached(self.primary, self.name, replayed=False, failure=self._failure)

    def lag(self) -> Lag | None:
        """Return its lag as the primary reports it; ``None`` while it is not connected."""
        return lag_of(self.primary, self.name)

    def stop(self) -> None:
        """Stop the process; the received WAL is kept."""
        if self._process is not None:
            self._process.stop(signal.SIGINT)
            self._process = None

    def destroy(self) -> None:
        """Stop it and remove the received WAL, and its slot if the primary runs."""
        try:
            self.stop()
            drop_slot(self.primary, self.name)
        finally:
            if self.relay is not None:
                self.relay.close()
            remove_directory(self.directory)

    def copy_segments_to(self, wal_dir: Path) -> list[str]:
        """Copy the received segments to ``wal_dir`` of a stopped server; return their names.

        Existing files are replaced; the partial segment loses its ``.partial`` suffix.
        """
        with as_server_account_in(wal_dir):
            received = sorted(self.directory.iterdir())
            names = [path.name.removesuffix(_PARTIAL) for path in received]
            for path, name in zip(received, names, strict=True):
                copy_file(path, wal_dir / name)
        if not names:
            raise SetupError(f"{self.name} has received no WAL", code="no-wal")
        return names

    def _source(self) -> str:
        """Return the primary's conninfo string; a password is stored in a password file."""
        if self.relay is None:
            return self.primary.conninfo.client_conninfo(application_name=self.name)
        source = self.primary.conninfo_tcp
        passfile = self.primary.directory / "receivewal.pgpass"
        write_own(passfile, f"*:*:*:*:{source.password}\n")
        change_owner(passfile, server_account())
        return source.client_conninfo(
            port=self.relay.port, application_name=self.name, passfile=str(passfile)
        )

    def _failure(self) -> str | None:
        if self.running:
            return None
        return f"it has ended: {last_line(self._log_path)}"
