"""What can be done with a server whose WAL is gone: each way works on a copy of the same wreck.

A rescue makes a cluster out of what is left and leaves it down, as whoever verifies it wants to
find it. Nothing is verified here; a rescue that makes a corrupt database is one all the same, and
several do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pgdyno.errors import SetupError
from pgdyno.server import Cluster
from pgdyno.server.local.account import run_as, server_account
from pgdyno.server.local.safefiles import as_server_account_in, copy_file
from pgdyno.server.replication.receivewal import WalReceiver
from pgdyno.server.replication.standby import Standby, promote
from pgdyno.spec.standby import MODE_SETTINGS


@dataclass(frozen=True)
class Wreck:
    """What is left when the WAL's disk is gone. None of its servers runs."""

    primary: Cluster
    standby: Standby | None
    wal_receiver: WalReceiver | None
    disk: Path | None = None
    """The WAL that the lost disk still holds, where one can look at it."""

    def copy(self, of: Cluster, until: ExitStack) -> Cluster:
        """A cluster with a copy of the data of ``of``, that waits for nobody's standby; it is there
        until ``until`` unwinds."""
        settings = {name: value for name, value in of.settings.items() if name not in MODE_SETTINGS}
        cluster = Cluster.create(of.installation, settings, source=of.data_dir)
        until.callback(cluster.destroy)
        return cluster


@dataclass(frozen=True)
class Rescued:
    """A cluster made from a wreck, down."""

    cluster: Cluster
    facts: dict[str, Any] = field(default_factory=dict)
    promoted_s: float | None = None
    """How long it took to make a standby a primary; ``None``: it was none."""
    foreign_wal: bool = False
    """Its WAL was put there from elsewhere, or may end before what the server knew of it."""


@dataclass(frozen=True)
class Rescue:
    """One way out."""

    name: str
    summary: str
    needs: Literal["", "standby", "wal_receiver", "disk"]
    promised: bool
    """Whether what commits waited for is then said to be there: by the documentation, not by luck.
    """
    carry_out: Callable[[Wreck, ExitStack], Rescued]
    """The cluster that it makes is there until the stack unwinds."""


def _start(wreck: Wreck, until: ExitStack) -> Rescued:
    return Rescued(wreck.copy(wreck.primary, until))


def _reset_wal(wreck: Wreck, until: ExitStack) -> Rescued:
    """New, empty WAL after the last checkpoint, whatever the pages say."""
    cluster = wreck.copy(wreck.primary, until)
    program = cluster.installation.binary("pg_resetwal")
    done = run_as(server_account(), [program, "--force", "--pgdata", cluster.data_dir])
    said = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        raise SetupError(f"pg_resetwal: {said}", code="resetwal")
    return Rescued(cluster, {"pg_resetwal": said})


def _promote(wreck: Wreck, until: ExitStack) -> Rescued:
    """The standby becomes the primary."""
    assert wreck.standby is not None
    cluster = wreck.copy(wreck.standby.cluster, until)
    began_s = time.monotonic()
    cluster.start()
    promote(cluster)
    seconds = time.monotonic() - began_s
    cluster.stop()
    return Rescued(cluster, promoted_s=seconds)


def _copy_back(wreck: Wreck, until: ExitStack) -> Rescued:
    """The standby's WAL in the primary's place: the seed's procedure."""
    assert wreck.standby is not None
    return _with_wal_of(wreck.standby.cluster.wal_dir, wreck, until)


def _reattach(wreck: Wreck, until: ExitStack) -> Rescued:
    """The lost disk is there again, with what it had taken by then."""
    assert wreck.disk is not None
    return _with_wal_of(wreck.disk, wreck, until)


def _with_wal_of(folder: Path, wreck: Wreck, until: ExitStack) -> Rescued:
    """The primary, with WAL that lies elsewhere."""
    cluster = wreck.copy(wreck.primary, until)
    with as_server_account_in(folder):
        files = [path for path in sorted(folder.iterdir()) if path.is_file()]
        for path in files:
            copy_file(path, cluster.wal_dir / path.name)
    return Rescued(cluster, {"wal_files": len(files)}, foreign_wal=True)


def _give_back(wreck: Wreck, until: ExitStack) -> Rescued:
    """What pg_receivewal received in the primary's place."""
    assert wreck.wal_receiver is not None
    cluster = wreck.copy(wreck.primary, until)
    given = wreck.wal_receiver.copy_segments_to(cluster.wal_dir)
    return Rescued(cluster, {"wal_files": len(given)}, foreign_wal=True)


RESCUES = {
    rescue.name: rescue
    for rescue in (
        Rescue("start", "the primary started as it is", "", False, _start),
        Rescue("resetwal", "pg_resetwal --force on the primary", "", False, _reset_wal),
        Rescue("promote", "the standby promoted", "standby", True, _promote),
        Rescue(
            "copy-back", "the standby's WAL in the primary's place", "standby", True, _copy_back
        ),
        Rescue("reattach", "the lost disk attached again", "disk", True, _reattach),
        Rescue("receivewal", "pg_receivewal's WAL given back", "wal_receiver", True, _give_back),
    )
}
