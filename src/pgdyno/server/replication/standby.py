"""A streaming standby of a server that pgdyno started: a second cluster, kept up by replication.

It is made from a base backup of the running primary, streams through a replication slot of its own,
and has its own directory, which a sweep removes like any other. Its link to the primary is the Unix
socket, or a relay (``_relay.py``) when the link must be slow or stalled.

A standby has the primary's roles, so also its password, and of the primary's settings only those it
needs. Settings made by ALTER SYSTEM, such as ``synchronous_standby_names``, are not taken over: a
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
from pgdyno.server.local.layout import OwnDirectory
from pgdyno.server.local.logtext import last_line
from pgdyno.server.local.safefiles import make_directory, remove_directory, working_in, write_text
from pgdyno.server.replication._relay import Relay
from pgdyno.server.replication._slots import (
    WAIT_S_MAX,
    Lag,
    drop_slot,
    lag_of,
    make_slot,
    wait_reached,
)

# A standby must have at least as much of these as its primary, or it stops replaying.
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
    # Back at once when the link returns; PostgreSQL's own default is 5 s.
    "wal_retrieve_retry_interval": "200ms",
    # What pg_rewind asks for after a promotion: WAL back to the last checkpoint before it, and
    # every change of a page.
    "wal_keep_size": "128MB",
    "wal_log_hints": "on",
}


class Standby:
    """One standby. Make one with ``create``; ``destroy`` takes it and its slot away."""

    def __init__(self, primary: Cluster, name: str, cluster: Cluster, relay: Relay | None) -> None:
        """Internal; use ``create``."""
        self.primary = primary
        self.name = name
        self.cluster = cluster
        self.relay = relay
        self._needs: str | None = None

    @classmethod
    def create(
        cls, primary: Cluster, name: str, *, relayed: bool = False, delay_ms: float = 0.0
    ) -> Self:
        """A standby of the running ``primary``, not yet started.

        ``name`` (a plain identifier) is its application_name and that of its slot. With ``relayed``
        or a delay, its link can be slowed and held up. Raises SetupError when the backup fails.
        """
        relay = None
        if relayed or delay_ms:
            there = primary.conninfo_tcp
            relay = Relay((there.host, there.port), delay_ms=delay_ms)
        try:
            make_slot(primary, name)
            cluster = Cluster.create(
                primary.installation,
                {**_settings_from(primary), **_OWN},
                disks=lambda directory: _backed_up(primary, directory),
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
        """Start it; returns when it is consistent and answers queries. SetupError if it does not
        get there, because it cannot reach its primary for one."""
        self.cluster.start(seconds_max=WAIT_S_MAX)

    def stop(self) -> None:
        """A fast stop. The slot stays, and keeps WAL on the primary."""
        self.cluster.stop()

    def destroy(self) -> None:
        """Take it away, with its slot if the primary still runs."""
        try:
            self.cluster.destroy()
            drop_slot(self.primary, self.name)
        finally:
            if self.relay is not None:
                self.relay.close()

    def wait_caught_up(self) -> None:
        """Wait until it streams, and has replayed all that the primary has written by now.

        Raises SetupError when it does not get there.
        """
        wait_reached(self.primary, self.name, replayed=True, alive=self._trouble)

    def lag(self) -> Lag | None:
        """How far it is behind, as the primary sees it; ``None`` while it is not connected."""
        return lag_of(self.primary, self.name)

    def promote(self) -> float:
        """Make it a primary; see :func:`promote`."""
        return promote(self.cluster)

    def rebuild(self, *, fresh: bool = False) -> str:
        """Make it a standby of its running primary again, whatever has become of it; returns how.

        ``fresh`` is for a primary that has gone back in time: what lies behind that is the same for
        none of the two, though WAL positions may say so.
        ``"rewound"``: by pg_rewind, after a promotion, where that is possible; ``"fresh"``: from a
        new base backup. It is left stopped.
        """
        self.cluster.stop()
        drop_slot(self.primary, self.name)
        make_slot(self.primary, self.name)
        how = "rewound" if not fresh and self._rewind() else "fresh"
        if how == "fresh":
            remove_directory(self.cluster.data_dir)
            _base_backup(self.primary, self.cluster.data_dir)
        self._point_at_primary()
        return how

    def pause(self) -> None:
        """Stop it and drop its slot, so that the primary keeps nothing back for it."""
        with connect(self.cluster.conninfo) as conn:
            row = conn.execute("select pg_last_wal_receive_lsn()::text").fetchone()
        self._needs = row[0] if row else None
        self.cluster.stop()
        drop_slot(self.primary, self.name)

    def resume(self) -> None:
        """Start it after a pause: from where it was, or from a fresh backup if that WAL is gone."""
        make_slot(self.primary, self.name)
        with connect(self.primary.conninfo) as conn:
            row = conn.execute(
                "select exists(select from pg_ls_waldir() where name = pg_walfile_name(%s))",
                [self._needs],
            ).fetchone()
        if row != (True,):
            self.rebuild()
        self.start()

    def require(self, settings: Mapping[str, str]) -> None:
        """Have at least what ``settings`` give the primary of what it may not have less of."""
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
        """Say whose standby this is, in place of what the backup brought from the primary."""
        there = self.primary.conninfo if self.relay is None else self.primary.conninfo_tcp
        port = there.port if self.relay is None else self.relay.port
        more = {"password": there.password or ""} if self.relay else {}
        conninfo = there.client_conninfo(port=port, application_name=self.name, **more)
        said = f"primary_conninfo = {quoted(conninfo)}\nprimary_slot_name = '{self.name}'\n"
        for name, content in (("postgresql.auto.conf", said), ("standby.signal", "")):
            write_text(self.cluster.data_dir / name, content)

    def _rewind(self) -> bool:
        """pg_rewind towards the primary; ``False`` when that cannot be done."""
        there = self.primary.conninfo
        with working_in(self.cluster.data_dir):
            if (self.cluster.data_dir / "standby.signal").exists():
                return False
        done = run_as(
            server_account(),
            [
                self.cluster.installation.binary("pg_rewind"),
                f"--target-pgdata={self.cluster.data_dir}",
                f"--source-server={there.client_conninfo(dbname=there.database)}",
                "--no-sync",
            ],
        )
        return done.returncode == 0

    def _trouble(self) -> str | None:
        if self.cluster.running:
            return None
        return f"it has ended: {last_line(self.cluster.log_path)}"


def promote(cluster: Cluster) -> float:
    """Make a running standby a primary; returns when it takes writes, with the seconds that took.

    It writes nothing of its own: transaction ids that were lost with the primary are not to be
    given out again before they have been asked about. Raises SetupError when it does not end.
    """
    began_s = time.monotonic()
    with connect(cluster.conninfo) as conn:
        row = conn.execute("select pg_promote(true, %s)", [int(WAIT_S_MAX)]).fetchone()
        recovering = conn.execute("select pg_is_in_recovery()").fetchone()
    if row != (True,) or recovering != (False,):
        said = last_line(cluster.log_path)
        raise SetupError(
            f"the standby was not promoted within {WAIT_S_MAX:.0f} s: {said}",
            code="standby-promotion",
        )
    return time.monotonic() - began_s


def _settings_from(primary: Cluster) -> dict[str, str]:
    """What the standby has as the primary has it now."""
    with connect(primary.conninfo) as conn:
        rows = conn.execute(
            "select name, current_setting(name) from pg_settings where name = any(%s)",
            [[*AT_LEAST_THE_PRIMARYS, *_SAME_AS_THE_PRIMARYS]],
        )
        return dict(rows.fetchall())


def _backed_up(primary: Cluster, directory: Path) -> OwnDirectory:
    """A base backup as the data directory of the cluster in ``directory``."""
    _base_backup(primary, directory / "data")
    return OwnDirectory()


def _base_backup(primary: Cluster, target: Path) -> None:
    """A copy of the running primary, without WAL: the slot keeps what it needs."""
    make_directory(target)
    command: list[str | Path] = [
        primary.installation.binary("pg_basebackup"),
        f"--dbname={primary.conninfo.client_conninfo()}",
        f"--pgdata={target}",
        "--checkpoint=fast",
        "--wal-method=none",
        "--no-sync",
    ]
    done = run_as(server_account(), command)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise SetupError(f"no base backup could be made: {said}", code="base-backup")
