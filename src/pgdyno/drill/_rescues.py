"""Rescues of a server whose WAL is lost; each works on copies of the same remains.

A rescue makes a cluster of the remains and leaves it down for verification. It verifies nothing
itself: some rescues make a corrupt database.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from pgdyno.errors import SetupError
from pgdyno.record.cut import Facts
from pgdyno.server import Cluster
from pgdyno.server.local.account import run_as, server_account
from pgdyno.server.local.safefiles import as_server_account_in, copy_file
from pgdyno.server.replication.receivewal import WalReceiver
from pgdyno.server.replication.standby import Standby, promote
from pgdyno.spec.standby import MODE_SETTINGS


class Remains(Struct, frozen=True):
    """The servers and WAL that are left after the loss of the WAL's disk. No server runs."""

    primary: Cluster
    standby: Standby | None
    wal_receiver: WalReceiver | None
    lost_wal: Path | None = None
    """A copy of the WAL on the lost disk, if it can be read."""

    def copy(self, of: Cluster, cleanup: ExitStack) -> Cluster:
        """Return a cluster with a copy of the data of ``of`` that waits for no standby; it exists
        until ``cleanup`` unwinds."""
        settings = {name: value for name, value in of.settings.items() if name not in MODE_SETTINGS}
        cluster = Cluster.create(of.installation, settings, source=of.data_dir)
        cleanup.callback(cluster.destroy)
        return cluster


class RescuedCluster(Struct, frozen=True):
    """A cluster that a rescue made, not running."""

    cluster: Cluster
    facts: Facts = field(default_factory=dict)
    promoted_s: float | None = None
    """Duration of the promotion; ``None``: the cluster was no standby."""
    foreign_wal: bool = False
    """True if the WAL was copied from elsewhere, so that it may end before the pages' changes."""


class Rescue(Struct, frozen=True):
    """A way to make a database of the remains."""

    name: str
    summary: str
    needs: Literal["", "standby", "wal_receiver", "disk"]
    promised: bool
    """True if the documentation promises that it restores the commits that waited for a standby."""
    carry_out: Callable[[Remains, ExitStack], RescuedCluster]
    """Function that makes the cluster, which exists until the stack unwinds."""


def _start(remains: Remains, cleanup: ExitStack) -> RescuedCluster:
    return RescuedCluster(remains.copy(remains.primary, cleanup))


def _reset_wal(remains: Remains, cleanup: ExitStack) -> RescuedCluster:
    """Create new, empty WAL after the last checkpoint, regardless of the pages."""
    cluster = remains.copy(remains.primary, cleanup)
    binary = cluster.installation.program("pg_resetwal")
    done = run_as(server_account(), [binary, "--force", "--pgdata", cluster.data_dir])
    output = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        raise SetupError(f"pg_resetwal: {output}", code="resetwal")
    return RescuedCluster(cluster, {"pg_resetwal": output})


def _promote(remains: Remains, cleanup: ExitStack) -> RescuedCluster:
    """Promote the standby."""
    assert remains.standby is not None
    cluster = remains.copy(remains.standby.cluster, cleanup)
    began_s = time.monotonic()
    cluster.start()
    promote(cluster)
    seconds = time.monotonic() - began_s
    cluster.stop()
    return RescuedCluster(cluster, promoted_s=seconds)


def _copy_back(remains: Remains, cleanup: ExitStack) -> RescuedCluster:
    """Copy the standby's WAL to the primary."""
    assert remains.standby is not None
    return _with_wal_of(remains.standby.cluster.wal_dir, remains, cleanup)


def _reattach(remains: Remains, cleanup: ExitStack) -> RescuedCluster:
    """Use the WAL that the lost disk held when it failed."""
    assert remains.lost_wal is not None
    return _with_wal_of(remains.lost_wal, remains, cleanup)


def _with_wal_of(directory: Path, remains: Remains, cleanup: ExitStack) -> RescuedCluster:
    """Return the primary with the WAL files of ``directory``."""
    cluster = remains.copy(remains.primary, cleanup)
    with as_server_account_in(directory):
        files = [path for path in sorted(directory.iterdir()) if path.is_file()]
        for path in files:
            copy_file(path, cluster.wal_dir / path.name)
    return RescuedCluster(cluster, {"wal_files": len(files)}, foreign_wal=True)


def _give_back(remains: Remains, cleanup: ExitStack) -> RescuedCluster:
    """Copy the WAL that pg_receivewal received to the primary."""
    assert remains.wal_receiver is not None
    cluster = remains.copy(remains.primary, cleanup)
    copied = remains.wal_receiver.copy_segments_to(cluster.wal_dir)
    return RescuedCluster(cluster, {"wal_files": len(copied)}, foreign_wal=True)


RESCUES = {
    rescue.name: rescue
    for rescue in (
        Rescue("start", "start of the primary as it is", "", False, _start),
        Rescue("resetwal", "pg_resetwal --force on the primary", "", False, _reset_wal),
        Rescue("promote", "promotion of the standby", "standby", True, _promote),
        Rescue(
            "copy-back", "copy of the standby's WAL on the primary", "standby", True, _copy_back
        ),
        Rescue("reattach", "the lost disk attached again", "disk", True, _reattach),
        Rescue(
            "receivewal", "copy of pg_receivewal's WAL on the primary", "wal_receiver", True,
            _give_back,
        ),
    )
}  # fmt: skip
