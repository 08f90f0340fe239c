"""Where data and WAL of a server of pgdyno's live: plain folders, memory, emulated disks."""

from pgdyno.disk._device import Device, open_device
from pgdyno.disk._keeping import keep_watch
from pgdyno.disk._model import Disk
from pgdyno.disk._opening import OpenPlaces, dismantle, open_disk, open_places
from pgdyno.disk.mounting import FileSystem, make_image, mount_image, sync_mount, unmount_all
from pgdyno.spec.disk import DiskPlan

__all__ = [
    "Device",
    "Disk",
    "DiskPlan",
    "FileSystem",
    "OpenPlaces",
    "dismantle",
    "keep_watch",
    "make_image",
    "mount_image",
    "open_device",
    "open_disk",
    "open_places",
    "sync_mount",
    "unmount_all",
]
