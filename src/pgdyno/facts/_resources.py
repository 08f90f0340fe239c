"""Use of the machine's cores, and the WAL written, over some slices."""

from __future__ import annotations

from msgspec import Struct


class HostCpu(Struct, frozen=True):
    """The host's CPU over the slices, in cores: the fields add up to ``cores``."""

    cores: float
    user: float
    system: float
    iowait: float
    steal: float
    idle: float

    @property
    def busy(self) -> float:
        """Cores at work, those that the hypervisor took away included."""
        return self.user + self.system + self.steal

    @property
    def busy_share(self) -> float:
        """``busy`` as a part of all cores."""
        return self.busy / self.cores

    @property
    def system_share(self) -> float:
        """The kernel's part of the time at work."""
        working = self.user + self.system
        return self.system / working if working > 0 else 0.0

    @property
    def idle_share(self) -> float:
        """Part of the cores with nothing to run; waiting for a disk is nothing to run."""
        return max(0.0, 1.0 - self.busy_share)


class Wal(Struct, frozen=True):
    """WAL written over the slices."""

    bytes: float
    records: float | None
    full_page_images: float | None
    image_bytes: float | None
    """Of the images, compressed where they are; None before version 19."""
    syncs: float | None
    sync_ms: float | None
    buffers_full: float | None

    @property
    def per_sync_ms(self) -> float | None:
        """Time of one sync; None without track_wal_io_timing."""
        return self.sync_ms / self.syncs if self.sync_ms and self.syncs else None

    @property
    def full_page_bytes(self) -> float | None:
        """Bytes of full-page images, estimated where the server does not count them.

        An image is a page of 8 kB without its hole; what is left for it is the WAL beyond the
        records themselves, whose typical length of about 80 bytes is calibrated by injection.
        """
        if self.image_bytes is not None:
            return self.image_bytes
        if self.full_page_images is None or self.records is None:
            return None
        beyond_records = max(0.0, self.bytes - 80.0 * self.records)
        return min(8192.0 * self.full_page_images, beyond_records)
