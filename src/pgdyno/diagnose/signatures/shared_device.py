"""WAL and data on one device: flushes of the WAL queue behind reads and writes of data.

Trigger: one device holds both and is at work for at least ``BUSY_SHARE`` of the time, at least
``OTHERS_SHARE`` of what is written to it is not WAL, and sessions wait for the flush for at least
``FLUSH_SHARE`` of the response time. The waits themselves belong to the commit flush.

Thresholds: from 60 % on, a device that does one thing at a time makes a request wait longer than it
takes (1 / (1 - 0.6) = 2.5 times the service, by the queue M/M/1); the other two are calibrated by
injection, checkpoints on a disk that writes 16 MB/s.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import percent
from pgdyno.record.finding import Evidence, Skip

BUSY_SHARE = 0.6
OTHERS_SHARE = 0.5
FLUSH_SHARE = 0.15
_NAME = "data,wal"


class _Device(Struct, frozen=True):
    name: str
    busy: float
    written_bytes: float
    read_bytes: float
    wal_bytes: float

    @property
    def others(self) -> float:
        """Part of the bytes written that is not WAL."""
        if self.written_bytes <= 0:
            return 0.0
        return max(0.0, 1.0 - self.wal_bytes / self.written_bytes)


def examine(s: Situation) -> Found | Cleared:
    """Examine the device of the WAL, where it holds the data too."""
    device = _shared(s)
    if device is None:
        evidence = [s.evidence("devices with both WAL and data", 0, "count")]
        return Cleared("WAL and data are on devices of their own", evidence)
    flush = s.budget.share("flush", "images")
    evidence = _evidence(s, device, flush)
    if device.busy < BUSY_SHARE or device.others < OTHERS_SHARE or flush < FLUSH_SHARE:
        return Cleared(f"the device of WAL and data is {percent(device.busy)} busy", evidence)
    return Found(
        sentence=(
            f"WAL and data are on one device, {device.name}, {percent(device.busy)} busy:"
            f" {percent(device.others)} of what is written to it is not WAL"
        ),
        share=0.0,
        liftable=0.0,
        confidence=0.6,
        evidence=evidence,
        advice="put pg_wal on a device of its own",
    )


def _shared(s: Situation) -> _Device | None:
    series = s.run.series("metric_disk", s.slice_ids)
    if not len(series["at_ms"]):
        raise Skip("the devices of WAL and data were not recorded")
    for name, holds in sorted(set(zip(series["device"], series["holds"], strict=True))):
        if holds != _NAME:
            continue
        busy_ms, written, read = (
            s.run.delta("metric_disk", column, s.slice_ids, where={"device": name}) or 0.0
            for column in ("busy_ms", "write_bytes", "read_bytes")
        )
        busy = min(1.0, busy_ms / 1000 / s.seconds)
        return _Device(str(name), busy, written, read, s.wal.bytes)
    return None


def _evidence(s: Situation, device: _Device, flush: float) -> list[Evidence]:
    return [
        s.evidence(
            f"{device.name} at work", device.busy, "share", f"at least {percent(BUSY_SHARE)}"
        ),
        s.evidence("written to it", device.written_bytes / s.seconds, "bytes/s"),
        s.evidence("read from it", device.read_bytes / s.seconds, "bytes/s"),
        s.evidence("of that not WAL", device.others, "share", f"at least {percent(OTHERS_SHARE)}"),
        s.evidence("WAL flush / response time", flush, "share", f"at least {percent(FLUSH_SHARE)}"),
    ]


SIGNATURE = Signature(
    id="shared-device",
    false_positives=(
        "a device that does many things at once, which is at work all the time long before it is"
        " its limit; other programs that write to it"
    ),
    examine=examine,
)
