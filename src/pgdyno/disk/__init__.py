"""Disks of a server started by pgdyno: plain directories, memory, emulated disks."""

from pgdyno.disk._cleanup import clean_up_if_killed
from pgdyno.disk._device import EmulatedDevice, open_device
from pgdyno.disk._opening import Disk, OpenDisks, dismantle, open_disk, open_disks
from pgdyno.disk._xfs import can_make_xfs
from pgdyno.disk.mounting import FileSystem, make_image, mount_image, sync_mount, unmount_all
from pgdyno.spec.disk import DiskPlan

__all__ = [
    "Disk",
    "DiskPlan",
    "EmulatedDevice",
    "FileSystem",
    "OpenDisks",
    "can_make_xfs",
    "clean_up_if_killed",
    "dismantle",
    "make_image",
    "mount_image",
    "open_device",
    "open_disk",
    "open_disks",
    "sync_mount",
    "unmount_all",
]
