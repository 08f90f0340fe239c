"""The disk of the WAL, which is moved there while the server is down."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change

_KEY = "disk.wal"


class WalDisk(KeyDimension):
    """The key ``disk.wal``."""

    id = "WAL disk"
    order = 30
    keys = _KEY

    def owns(self, key: str) -> bool:
        """True if it is the key of this dimension."""
        return key == _KEY

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the disk as text, even where it looks like another type."""
        if _KEY in change.spec:
            fields.setdefault("disk", {})["wal"] = change.spec[_KEY]

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``WAL on tmpfs:2GB``."""
        for disk in self.mine(change).values():
            yield "WAL with the data" if disk == "data" else f"WAL on {disk}"

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Open the disk, which remains open until the session ends."""
        for disk in self.mine(change).values():
            _opened(disk, context)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return SERVER_RESTART if the WAL must be moved."""
        same = transition.spec_after.disk.wal == self._now(context)
        return super().needs(transition, context) if same else Need.SERVER_RESTART

    def while_down(self, transition: Transition, context: Context) -> None:
        """Move the WAL."""
        assert context.server.cluster is not None
        context.server.cluster.move_wal(_opened(transition.spec_after.disk.wal, context))
        context.remembered[self.id] = transition.spec_after.disk.wal

    def _now(self, context: Context) -> str:
        return str(context.remembered.get(self.id, context.base.disk.wal))


DIMENSION = WalDisk()


def _opened(disk: str, context: Context) -> Path | None:
    """Return the directory of the WAL on ``disk``, which is opened if needed."""
    if context.server.disks is None:
        raise UsageError(
            "disk.wal: pgdyno does not move the WAL of a server that it did not start",
            code="restart-refused",
        )
    return context.server.disks.wal_directory(disk)
