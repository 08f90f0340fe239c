"""WAL that cannot be removed: until when the disk has room for it."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.facts.slices import Facts
from pgdyno.numbers import duration, size
from pgdyno.record.finding import Evidence, Skip

HORIZON_S = 86400.0
"""Time within which a full disk is near. node_exporter's alerts warn when a file system will be
full within 24 hours, and call 4 hours critical (NodeFilesystemSpaceFillingUp)."""


class Outlook(Struct, frozen=True):
    """The rate at which WAL is written, and the space for it."""

    bytes_s: float
    free_bytes: float | None
    """None if the WAL's disk was not seen."""

    @property
    def full_in_s(self) -> float | None:
        """Time until the disk is full if no WAL is removed; None if unknown."""
        if self.free_bytes is None or self.bytes_s <= 0:
            return None
        return self.free_bytes / self.bytes_s

    @property
    def about_to_fail(self) -> bool:
        """True if the disk is full within ``HORIZON_S``."""
        return self.full_in_s is not None and self.full_in_s < HORIZON_S

    @property
    def in_words(self) -> str:
        """The consequence in a sentence."""
        if self.full_in_s is None:
            return f"at {size(self.bytes_s)}/s the disk fills until the server ends"
        return (
            f"at {size(self.bytes_s)}/s the disk is full in {duration(self.full_in_s)}, and"
            " the server ends with a PANIC"
        )


def outlook(s: Facts) -> Outlook:
    """Return the outlook for WAL that is kept from now on. Skip if WAL was not recorded."""
    bytes_s = written_bytes(s) / s.seconds
    space = s.run.series("metric_space", s.slice_ids)
    free = [
        float(free_bytes)
        for holds, free_bytes in zip(space["holds"], space["free_bytes"], strict=True)
        if "wal" in str(holds).split(",")
    ]
    return Outlook(bytes_s, free[-1] if free else None)


def written_bytes(s: Facts) -> float:
    """Return the WAL written, by its position: pg_stat_wal counts some of it later."""
    written = s.run.delta("metric_wal", "insert_lsn_bytes", s.slice_ids)
    if written is None:
        raise Skip("the position of the WAL was not recorded")
    return written


def outlook_evidence(s: Facts, seen: Outlook) -> list[Evidence]:
    """Return the evidence on the time that is left."""
    bar = f"within {duration(HORIZON_S)} it is about to fail"
    return [
        s.evidence("WAL written", seen.bytes_s, "bytes/s"),
        s.evidence("free space on the WAL's disk", seen.free_bytes, "bytes"),
        s.evidence("disk full at this rate in", seen.full_in_s, "s", bar),
    ]
