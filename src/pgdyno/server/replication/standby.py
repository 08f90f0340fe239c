"""A streaming standby of a server that pgdyno started.

It is created from a base backup of the running primary, streams through its own replication slot,
and has its own cluster directory, which a sweep removes like any other. It connects to the primary
by the Unix socket, or through a relay (``_relay.py``) when the link must be slow or stalled.

A standby has the primary's roles and password, but only those of the primary's settings that it
needs. Settings made by ALTER SYSTEM, such as ``synchronous_standby_names``, are not copied: a
promoted standby would wait for itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pgdyno.errors import SetupError
from pgdyno.server.connecting.connect import connect
from pgdyno.server.local.account import run_as, server_account
from pgdyno.server.local.cluster import Cluster, quoted
from pgdyno.server.local.guarded import last_line
from pgdyno.server.local.layout import OwnDirectory
from pgdyno.server.local.safefiles import (
    as_server_account_in,
    make_directory,
    remove_directory,
    write_text,
)
from pgdyno.server.replication._relay import Relay
from pgdyno.server.replication._slots import (
    WAIT_S_MAX,
    Lag,
    drop_slot,
    lag_of,
    make_slot,
    wait_reached,
)

# A standby needs at least the primary's values of these, or it stops replaying.
AT_LEAST_THE_PRIMARYS = (
    "max_connections",
    "max_locks_per_transaction",
    "max_prepared_transactions",
    "max_wal_senders",
    "max_worker_processes",
)
_SAME_AS_THE_PRIMARYS = ("shared_buffers", "max_wal_size", "min_wal_size")
_OWN = {
    "hot_standby": "on",
    # Reconnects quickly; PostgreSQL's default is 5 s.
    "wal_retrieve_retry_interval": "200ms",
    # Requirements of pg_rewind after a promotion: WAL back to the last checkpoint before it, and
    # hint bits in the WAL.
    "wal_keep_size": "128MB",
    "wal_log_hints": "on",
}


class Standby:
    """A standby. ``create`` makes one; ``destroy`` removes it and its slot."""

    def __init__(self, primary: Cluster, name: str, cluster: Cluster, relay: Relay | None) -> None:
        """Internal; use ``create``."""
        self.primary = primary
        self.name = name
        self.cluster = cluster
        self.relay = relay
        self._resume_lsn: str | None = None

    @classmethod
    def create(
        cls, primary: Cluster, name: str, *, relayed: bool = False, delay_ms: float = 0.0
    ) -> Self:
        """Create a standby of the running ``primary``, not yet started.

        ``name`` (a plain identifier) is its application_name and its slot's name. With ``relayed``
        or a delay, its link can be delayed and stalled. Raises SetupError when the backup fails.
        """
        relay = None
        if relayed or delay_ms:
            source = primary.conninfo_tcp
            relay = Relay((source.host, source.port), delay_ms=delay_ms)
        try:
            make_slot(primary, name)
            cluster = Cluster.create(
                primary.installation,
                {**_settings_from(primary), **_OWN},
                disks=lambda directory: _restore_backup(primary, directory),
            )
        except BaseException:
            drop_slot(primary, name)
            if relay is not None:
                relay.close()
            raise
        standby = cls(primary, name, cluster, relay)
        standby._point_at_primary()
        return standby

    def start(self) -> None:
        """Start it; return when it is consistent and accepts queries.

        Raises SetupError if it does not, for example because it cannot connect to its primary.
        """
        self.cluster.start(seconds_max=WAIT_S_MAX)

    def stop(self) -> None:
        """Stop it in fast mode. The slot stays, and retains WAL on the primary."""
        self.cluster.stop()

    def destroy(self) -> None:
        """Remove it, and its slot if the primary runs."""
        try:
            self.cluster.destroy()
            drop_slot(self.primary, self.name)
        finally:
            if self.relay is not None:
                self.relay.close()

    def wait_caught_up(self) -> None:
        """Wait until it streams and has replayed all WAL written so far; SetupError if it fails."""
        wait_reached(self.primary, self.name, replayed=True, failure=self._failure)

    def lag(self) -> Lag | None:
        """Return its lag as the primary reports it; ``None`` while it is not connected."""
        return lag_of(self.primary, self.name)

    def promote(self) -> float:
        """Promote it; see :func:`promote`."""
        return promote(self.cluster)

    def rebuild(self, *, fresh: bool = False) -> str:
        """Make it a standby of its running primary again and leave it stopped; return the method.

        ``"rewound"``: by pg_rewind, where possible after a promotion; ``"fresh"``: from a new base
        backup. ``fresh`` requires the latter, for a primary whose data was restored to a past
        state: the servers then differ although their WAL positions may agree.
        """
        self.cluster.stop()
        drop_slot(self.primary, self.name)
        make_slot(self.primary, self.name)
        method = "rewound" if not fresh and self._rewind() else "fresh"
        if method == "fresh":
            remove_directory(self.cluster.data_dir)
            _base_backup(self.primary, self.cluster.data_dir)
        self._point_at_primary()
        return method

    def pause(self) -> None:
        """Stop it and drop its slot, so that the primary retains no WAL for it."""
        with connect(self.cluster.conninfo) as conn:
            row = conn.execute("select pg_last_wal_receive_lsn()::text").fetchone()
        self._resume_lsn = row[0] if row else None
        self.cluster.stop()
        drop_slot(self.primary, self.name)

    def resume(self) -> None:
        """Start it after a pause; rebuild it first if the WAL it needs has been removed."""
        make_slot(self.primary, self.name)
        with connect(self.primary.conninfo) as conn:
            row = conn.execute(
                "select exists(select from pg_ls_waldir() where name = pg_walfile_name(%s))",
                [self._resume_lsn],
            ).fetchone()
        if row != (True,):
            self.rebuild()
        self.start()

    def raise_minimums(self, settings: Mapping[str, str]) -> None:
        """Raise its settings to ``settings`` of the primary where it needs at least as much."""
        more = {
            name: value
            for name, value in settings.items()
            if name in AT_LEAST_THE_PRIMARYS and int(value) > int(self.cluster.settings[name])
        }
        if more:
            self.cluster.settings.update(more)
            if self.cluster.running:
                self.cluster.restart()

    def _point_at_primary(self) -> None:
        """Write its replication settings in place of the primary's ALTER SYSTEM settings."""
        source = self.primary.conninfo if self.relay is None else self.primary.conninfo_tcp
        port = source.port if self.relay is None else self.relay.port
        more = {"password": source.password or ""} if self.relay else {}
        conninfo = source.client_conninfo(port=port, application_name=self.name, **more)
        lines = f"primary_conninfo = {quoted(conninfo)}\nprimary_slot_name = '{self.name}'\n"
        for name, content in (("postgresql.auto.conf", lines), ("standby.signal", "")):
            write_text(self.cluster.data_dir / name, content)

    def _rewind(self) -> bool:
        """Run pg_rewind against the primary; return ``False`` if it is not possible."""
        source = self.primary.conninfo
        with as_server_account_in(self.cluster.data_dir):
            if (self.cluster.data_dir / "standby.signal").exists():
                return False
        done = run_as(
            server_account(),
            [
                self.cluster.installation.program("pg_rewind"),
                f"--target-pgdata={self.cluster.data_dir}",
                f"--source-server={source.client_conninfo(dbname=source.database)}",
                "--no-sync",
            ],
        )
        return done.returncode == 0

    def _failure(self) -> str | None:
        if self.cluster.running:
            return None
        return f"it has ended: {last_line(self.cluster.log_path)}"


def promote(cluster: Cluster) -> float:
    """Promote a running standby; return the seconds until it accepts writes.

    pgdyno itself writes nothing: transaction IDs that were lost with the primary must not be
    assigned again before the drill has checked them. Raises SetupError when the promotion fails.
    """
    began_s = time.monotonic()
    with connect(cluster.conninfo) as conn:
        row = conn.execute("select pg_promote(true, %s)", [int(WAIT_S_MAX)]).fetchone()
        recovering = conn.execute("select pg_is_in_recovery()").fetchone()
    if row != (True,) or recovering != (False,):
        logged = last_line(cluster.log_path)
        raise SetupError(
            f"the standby was not promoted within {WAIT_S_MAX:.0f} s: {logged}",
            code="standby-promotion",
        )
    return time.monotonic() - began_s


def _settings_from(primary: Cluster) -> dict[str, str]:
    """Return the primary's present values of the settings that a standby copies."""
    with connect(primary.conninfo) as conn:
        rows = conn.execute(
            "select name, current_setting(name) from pg_settings where name = any(%s)",
            [[*AT_LEAST_THE_PRIMARYS, *_SAME_AS_THE_PRIMARYS]],
        )
        return dict(rows.fetchall())


def _restore_backup(primary: Cluster, directory: Path) -> OwnDirectory:
    """Make a base backup the data directory of the cluster in ``directory``."""
    _base_backup(primary, directory / "data")
    return OwnDirectory()


def _base_backup(primary: Cluster, target: Path) -> None:
    """Copy the running primary without WAL, which the slot retains."""
    make_directory(target)
    command: list[str | Path] = [
        primary.installation.program("pg_basebackup"),
        f"--dbname={primary.conninfo.client_conninfo()}",
        f"--pgdata={target}",
        "--checkpoint=fast",
        "--wal-method=none",
        "--no-sync",
    ]
    done = run_as(server_account(), command)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise SetupError(f"no base backup could be made: {reason}", code="base-backup")
