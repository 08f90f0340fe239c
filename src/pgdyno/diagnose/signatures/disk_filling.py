"""A disk about to be full: of WAL, which ends the server with a PANIC, or of data.

Triggers, computed by ``pgdyno.stats.filling``:

- the WAL's disk has less space than the WAL may need by ``max_wal_size`` (or by the WAL written
  between two timed checkpoints, if that is less), and WAL is being written;
- the WAL has grown beyond ``max_wal_size`` and keeps growing: something keeps it;
- the data grows steadily, and the disk is full within ``HORIZON_S`` (30 minutes, because a test is
  short compared with production), or it is fuller than ``USED_SHARE``.

Thresholds: the WAL's margin is an eighth of ``max_wal_size`` and two segments, as that is a soft
limit; most monitoring calls a disk critical at 95 %. A steady server recycles its WAL segments, so
its disk may be 90 % full permanently.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Evidence, Proposal, Skip
from pgdyno.diagnose.words import figure, percent
from pgdyno.spec.change import Change
from pgdyno.spec.units import format_size
from pgdyno.stats.filling import (
    Filling,
    Space,
    disk_name,
    forecast,
    full_soon,
    steady_growth,
    wal_beyond_disk,
    wal_wanted,
)

HORIZON_S = 1800.0
USED_SHARE = 0.95
_SEGMENT_BYTES = 16 << 20
_WAL_PART = 0.7
"""Proposed max_wal_size as a share of the space for WAL."""


@dataclass(frozen=True)
class _Disk:
    """A file system, with the predicted time at which it is full."""

    name: str
    space: Space
    filling: Filling | None

    @property
    def used_share(self) -> float:
        return 1.0 - self.space.free_bytes / self.space.size_bytes

    @property
    def wal_space_bytes(self) -> float:
        return self.space.free_bytes + (self.space.wal_dir_bytes or 0.0)

    @property
    def about_to_fill(self) -> bool:
        if self.filling is None:
            return False
        soon = self.filling.seconds < HORIZON_S or self.used_share > USED_SHARE
        return self.filling.why != "growth" or soon


def examine(s: Situation) -> Found | Cleared:
    """Examine each file system that contains data or WAL."""
    disks = _disks(s)
    evidence = [item for disk in disks for item in _evidence(s, disk)]
    filling = [disk for disk in disks if disk.about_to_fill]
    if not filling:
        fullest = max(disks, key=lambda disk: disk.used_share)
        return Cleared(
            f"{fullest.name} is {percent(fullest.used_share)} full, and no growth that would fill"
            " it was measured",
            evidence,
        )
    first = min(filling, key=lambda disk: disk.filling.seconds if disk.filling else 0.0)
    return Found(
        sentence=_sentence(s, first),
        share=0.0,
        liftable=0.0,
        confidence=0.8,
        evidence=evidence,
        proposals=_proposals(first),
    )


def _disks(s: Situation) -> list[_Disk]:
    series = s.run.series("metric_space", s.slice_ids)
    names = sorted({str(holds) for holds in series["holds"]})
    if not names:
        raise Skip("the space on the server's disks was not recorded")
    return [_disk(s, holds) for holds in names]


def _disk(s: Situation, holds: str) -> _Disk:
    rows = s.run.series("metric_space", s.slice_ids, where={"holds": holds})
    times_s = [at_ms / 1000 for at_ms in rows["at_ms"]]
    used = [
        float(size - free)
        for size, free in zip(rows["size_bytes"], rows["free_bytes"], strict=True)
    ]
    wal = [float(each) for each in rows["wal_dir_bytes"] if each == each]
    has_wal = len(wal) == len(used)
    wal_bytes_s, wanted = _wal_pace(s) if has_wal else (0.0, None)
    space = Space(
        size_bytes=float(rows["size_bytes"][-1]),
        free_bytes=float(rows["free_bytes"][-1]),
        growth_bytes_s=steady_growth(times_s, used),
        wal_dir_bytes=wal[-1] if has_wal else None,
        wal_growth_bytes_s=steady_growth(times_s, wal) if has_wal else 0.0,
        wal_bytes_s=wal_bytes_s,
        wal_wanted_bytes=wanted,
    )
    filling = forecast(space, s.settings.size_bytes("max_wal_size"))
    return _Disk(disk_name(holds, str(rows["filesystem"][-1])), space, filling)


def _wal_pace(s: Situation) -> tuple[float, float | None]:
    """Return the WAL rate and the maximum space for WAL, in bytes; None if unknown."""
    try:
        bytes_s = s.wal.bytes / s.seconds
    except Skip:
        return 0.0, None
    size = s.settings.size_bytes("max_wal_size")
    timeout_ms = s.settings.duration_ms("checkpoint_timeout")
    if size is None:
        return bytes_s, None
    return bytes_s, wal_wanted(
        size,
        bytes_s=bytes_s,
        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
        completion_target=s.settings.number("checkpoint_completion_target"),
    )


def _sentence(s: Situation, disk: _Disk) -> str:
    assert disk.filling is not None
    full = full_soon(disk.name, disk.filling.seconds)
    match disk.filling.why:
        case "max_wal_size":
            cause = wal_beyond_disk(disk.wal_space_bytes, str(s.settings.text("max_wal_size")))
            return f"{full}, and the server ends with a PANIC: {cause}"
        case "kept":
            return (
                f"{full}, and the server ends with a PANIC: the WAL has grown to"
                f" {_mb(disk.space.wal_dir_bytes or 0.0)}, beyond max_wal_size, so something keeps"
                " it: a replication slot, an archiver that fails, or wal_keep_size"
            )
        case "growth":
            growth = disk.space.growth_bytes_s - disk.space.wal_growth_bytes_s
            return f"{full}: it is {percent(disk.used_share)} full and grows by {_mb(growth)}/s"


def _mb(size_bytes: float) -> str:
    return f"{figure(size_bytes / (1 << 20))} MB"


def _evidence(s: Situation, disk: _Disk) -> list[Evidence]:
    space = disk.space
    evidence = [
        s.evidence(f"{disk.name}, used", disk.used_share, "share", f"over {percent(USED_SHARE)}"),
        s.evidence(f"{disk.name}, free", space.free_bytes, "bytes"),
        s.evidence(f"{disk.name}, growth", space.growth_bytes_s, "bytes/s"),
    ]
    if disk.filling is not None:
        evidence.append(
            s.evidence(
                f"{disk.name}, full at this rate in",
                disk.filling.seconds,
                "s",
                f"within {figure(HORIZON_S)} s",
            )
        )
    if space.wal_dir_bytes is not None:
        evidence.append(s.evidence("WAL on it", space.wal_dir_bytes, "bytes"))
        evidence.append(s.evidence("WAL written", space.wal_bytes_s, "bytes/s"))
    if space.wal_wanted_bytes is not None:
        evidence.append(
            s.evidence(
                "space that the WAL may need",
                space.wal_wanted_bytes,
                "bytes",
                f"more than the {_mb(disk.wal_space_bytes)} available",
            )
        )
    return evidence


def _proposals(disk: _Disk) -> list[Proposal]:
    """Return a smaller max_wal_size if that is the cause; it makes nothing faster."""
    if disk.filling is None or disk.filling.why != "max_wal_size":
        return []
    segments = max(2, int(disk.wal_space_bytes * _WAL_PART / _SEGMENT_BYTES))
    return [
        Proposal(
            "wal-within-disk",
            Change(settings={"max_wal_size": format_size(segments * _SEGMENT_BYTES)}),
            1.0,
            "a checkpoint would remove WAL before the disk is full",
        )
    ]


SIGNATURE = Signature(
    id="disk-filling",
    false_positives=(
        "a load that fills tables only at its beginning; other programs that write to the same file"
        " system; a file system that is made larger when it is needed"
    ),
    examine=examine,
)
