"""Disks of data and WAL, and checksums of the data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.dimension.kinds.version import own_server
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec
from pgdyno.spec.disk import disk_plan


class DataDisk(KeyDimension):
    """The file system that the data are on, and its mount options, on a loop device of pgdyno's.

    With other mount options the disk is mounted again while the server is down; with another file
    system or size the data are copied there. The key ``disk.data``.
    """

    id = "data disk"
    order = 29
    key = "disk.data"
    keys = key

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Refuse all but loop devices, before anything is started."""
        if not self.owns(key):
            return None
        if spec is not None:
            _refuse_others(spec.disk.data, value)
        return Change(spec={key: value})

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the disk as text."""
        if self.key in change.spec:
            fields.setdefault("disk", {})["data"] = change.spec[self.key]

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``data on xfs of 2GB on a loop device``."""
        return [f"data on {disk_plan(disk)}" for disk in self.mine(change).values()]

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Refuse all but loop devices."""
        for disk in self.mine(change).values():
            _refuse_others(context.base.disk.data, disk)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return SERVER_RESTART if the disk must become another one."""
        same = transition.spec_after.disk.data == self._now(context)
        return Need.NOTHING if same else Need.SERVER_RESTART

    def while_down(self, transition: Transition, context: Context) -> None:
        """Have the disk become the other one."""
        self._become(transition.spec_after.disk.data, context)

    def revert(self, change: Change, transition: Transition, context: Context) -> Change:
        """Have the disk become the one before."""
        self._become(transition.spec_before.disk.data, context)
        others = {key: value for key, value in change.spec.items() if not self.owns(key)}
        return replace(change, spec={**others, **self.mine(transition.before)})

    def _become(self, disk: str, context: Context) -> None:
        assert context.server.disks is not None
        context.server.disks.become(disk)
        context.remembered[self.id] = disk

    def _now(self, context: Context) -> str:
        return str(context.remembered.get(self.id, context.base.disk.data))


DATA_DISK = DataDisk()


def _refuse_others(first: str, other: str) -> None:
    """Raise UsageError unless both disks are on loop devices, between which the data can move."""
    for disk in (first, other):
        if disk_plan(disk).kind != "loop":
            raise UsageError(
                f'disk.data: "{disk}" is on no loop device, and only these can differ between'
                " slices",
                code="data-disk-not-variable",
                hint="begin with one and compare it with another: --data-disk loop:fs=ext4 --vary"
                " disk.data=loop:fs=xfs",
            )


class WalDisk(KeyDimension):
    """The disk of the WAL, which is moved there while the server is down. The key ``disk.wal``."""

    id = "WAL disk"
    order = 30
    key = "disk.wal"
    keys = key

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the disk as text, even where it looks like another type."""
        if self.key in change.spec:
            fields.setdefault("disk", {})["wal"] = change.spec[self.key]

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


WAL_DISK = WalDisk()


def _opened(disk: str, context: Context) -> Path | None:
    """Return the directory of the WAL on ``disk``, which is opened if needed."""
    if context.server.disks is None:
        raise UsageError(
            "disk.wal: pgdyno does not move the WAL of a server that it did not start",
            code="restart-refused",
        )
    return context.server.disks.wal_directory(disk)


class Checksums(KeyDimension):
    """Checksums of data pages: turned on or off by pg_checksums while the server is down. The key
    ``server.checksums``."""

    id = "checksums"
    order = 40
    key = "server.checksums"
    keys = key

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``with checksums``."""
        for value in self.mine(change).values():
            yield "with checksums" if value == "true" else "no checksums"

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return SERVER_RESTART if the server's checksums differ from the spec."""
        if own_server(transition.before) or own_server(transition.after):
            return Need.NOTHING  # Such a server is made with or without them.
        same = self._wanted(transition, context) == context.server.checksums
        return super().needs(transition, context) if same else Need.SERVER_RESTART

    def while_down(self, transition: Transition, context: Context) -> None:
        """Turn checksums on or off."""
        wanted = self._wanted(transition, context)
        assert context.server.cluster is not None
        context.server.cluster.set_checksums(wanted=wanted)
        context.server.facts["settings"]["data_checksums"] = "on" if wanted else "off"

    def _wanted(self, transition: Transition, context: Context) -> bool:
        """Return the spec's value, or by default the server's initial one."""
        initial = context.remembered.setdefault(self.id, context.server.checksums)
        said = transition.spec_after.server.checksums
        return bool(initial if said is None else said)


CHECKSUMS = Checksums()
