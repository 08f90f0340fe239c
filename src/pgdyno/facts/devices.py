"""The device that holds the data, and whether more requests at once may be of no use to it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pgdyno.facts.slices import Facts
from pgdyno.numbers import percent
from pgdyno.record.finding import Evidence

BUSY_SHARE = 0.95
"""Part of the time at work from which a device may be at its limit. Only one that does one thing at
a time is; the counters of the kernel do not tell how many another one could do (iostat(1), %util),
so that this is a reason for a trial and no proof."""
IN_FLIGHT_MIN = 2.0
"""Requests at the device on average: one that is served and one that waits."""


class DeviceLoad(Struct, frozen=True):
    """A device over some slices."""

    name: str
    busy: float
    """Part of the time for which it had any request."""
    in_flight: float
    """Requests that it had on average."""

    @property
    def may_be_saturated(self) -> bool:
        """True if more requests at once may only wait longer."""
        return self.busy >= BUSY_SHARE and self.in_flight >= IN_FLIGHT_MIN


def data_device(s: Facts) -> DeviceLoad | None:
    """Return the busiest device that holds data; None if none was recorded."""
    series = s.run.series("metric_disk", s.slice_ids)
    held = zip(series["device"], series["holds"], strict=True)
    names = sorted({str(name) for name, holds in held if "data" in str(holds).split(",")})
    return max((_device(s, name) for name in names), key=lambda each: each.busy, default=None)


def _device(s: Facts, name: str) -> DeviceLoad:
    busy_ms, queue_ms = (
        s.run.delta("metric_disk", column, s.slice_ids, where={"device": name}) or 0.0
        for column in ("busy_ms", "queue_ms")
    )
    return DeviceLoad(name, min(1.0, busy_ms / 1000 / s.seconds), queue_ms / 1000 / s.seconds)


def device_evidence(s: Facts, device: DeviceLoad | None) -> Sequence[Evidence]:
    """Return the evidence of the device that holds the data."""
    if device is None:
        return []
    bar = f"at least {percent(BUSY_SHARE)} if it may be at its limit"
    requests = f"at least {IN_FLIGHT_MIN:g} if it may be at its limit"
    return [
        s.evidence(f"{device.name}, which holds the data, at work", device.busy, "share", bar),
        s.evidence(f"requests at {device.name}", device.in_flight, "count", requests),
    ]
