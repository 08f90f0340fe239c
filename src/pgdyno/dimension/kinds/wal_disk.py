"""On which disk the WAL is: moved there while the server is down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pgdyno.dimension._dimension import Fields, KeyDimension, Need, Place, Step
from pgdyno.errors import UsageError
from pgdyno.spec import Change

_KEY = "disk.wal"


class WalDisk(KeyDimension):
    """The key ``disk.wal``."""

    id = "WAL disk"
    order = 30
    keys = _KEY

    def owns(self, key: str) -> bool:
        """That one."""
        return key == _KEY

    def enter(self, fields: Fields, change: Change) -> None:
        """A disk is a text, whatever it looks like."""
        if _KEY in change.spec:
            fields.setdefault("disk", {})["wal"] = change.spec[_KEY]

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """``WAL on tmpfs:2GB``."""
        for disk in self.mine(change).values():
            yield "WAL with the data" if disk == "data" else f"WAL on {disk}"

    def provide(self, change: Change, place: Place, *, under_load: bool) -> None:
        """Open the disk; it stays open until the session ends."""
        for disk in self.mine(change).values():
            _opened(disk, place)

    def needs(self, step: Step, place: Place) -> Need:
        """A restart, to be there."""
        same = step.wanted.disk.wal == self._now(place)
        return super().needs(step, place) if same else Need.SERVER_RESTART

    def while_down(self, step: Step, place: Place) -> None:
        """Move it."""
        assert place.server.cluster is not None
        place.server.cluster.move_wal(_opened(step.wanted.disk.wal, place))
        place.remembered[self.id] = step.wanted.disk.wal

    def _now(self, place: Place) -> str:
        return str(place.remembered.get(self.id, place.base.disk.wal))


DIMENSION = WalDisk()


def _opened(disk: str, place: Place) -> Path | None:
    """Where the WAL goes on ``disk``, which is opened if it is not yet."""
    if place.server.places is None:
        raise UsageError(
            "disk.wal: pgdyno does not move the WAL of a server that it did not start",
            code="restart-refused",
        )
    return place.server.places.wal_place(disk)
