"""Where data and WAL of a server of pgdyno's live: plain folders, memory, emulated disks."""

from pgdyno.disk.model import Disk, parse_disk
from pgdyno.disk.opening import OpenPlaces, dismantle, open_disk, open_places
from pgdyno.spec.disk import DiskPlan

__all__ = ["Disk", "DiskPlan", "OpenPlaces", "dismantle", "open_disk", "open_places", "parse_disk"]
