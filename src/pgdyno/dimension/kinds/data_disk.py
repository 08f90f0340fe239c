"""The file system that the data are on, and its mount options, on a loop device of pgdyno's.

With other mount options the disk is mounted again while the server is down; with another file
system or size the data are copied there.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec
from pgdyno.spec.disk import disk_plan

_KEY = "disk.data"


class DataDisk(KeyDimension):
    """The key ``disk.data``."""

    id = "data disk"
    order = 29
    keys = _KEY

    def owns(self, key: str) -> bool:
        """True if it is the key of this dimension."""
        return key == _KEY

    def read(self, key: str, value: str, spec: Spec | None) -> Change | None:
        """Refuse all but loop devices, before anything is started."""
        if not self.owns(key):
            return None
        if spec is not None:
            _refuse_others(spec.disk.data, value)
        return Change(spec={key: value})

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the disk as text."""
        if _KEY in change.spec:
            fields.setdefault("disk", {})["data"] = change.spec[_KEY]

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


DIMENSION = DataDisk()


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
