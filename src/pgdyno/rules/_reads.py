"""Reads of tables and indexes into shared buffers, why sessions wait for them, and whether the
device that holds the data can do more at once.

Sessions wait for reads for two reasons. ``small``: shared_buffers hold a part of the data only,
and are smaller than PostgreSQL's default or are filled again from the kernel's cache. ``slow``: a
read takes as long as a device needs. A hit ratio tells neither, so it is evidence only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from pgdyno.facts.situation import Situation
from pgdyno.facts.slices import Facts
from pgdyno.numbers import percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._contention import crowded
from pgdyno.rules._cpu_uses import ALL_MAX, backend_cores, ratio_of_own_work
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.spec.change import Change
from pgdyno.spec.units import format_size
from pgdyno.stats.prediction import Prediction, between
from pgdyno.wait_events import Wait

BUSY_SHARE = 0.95
"""Part of the time at work from which a device may be at its limit. Only one that does one thing at
a time is; the counters of the kernel do not tell how many another one could do (iostat(1), %util),
so that this is a reason for a trial and no proof."""
IN_FLIGHT_MIN = 2.0
"""Requests at the device on average: one that is served and one that waits."""
WAITING_SHARE = 0.1
"""Calibrated by injection: reads delayed by 1 to 5 ms, and shared_buffers of 1 MB."""
CACHE_READ_MS = 0.1
"""Time of a read above which a device answered: copying a page from the kernel's cache takes under
0.01 ms (measured, 0.005 on 2 busy cores), flash storage 0.08 and more."""
COPY_MS = 0.02
"""Time of a read below which the session itself copied the page: with a process that reads for it,
as from version 18 on, it takes 0.03 and more on busy cores (measured)."""
COPY_TIMES = 3.0
"""CPU time that a page takes that was replaced and is copied again, over the time of the copy: 0.7
and 1.8 in pairs with larger shared_buffers."""
DEFAULT_BYTES = 128 << 20
"""PostgreSQL's default of shared_buffers, for small machines."""
MEMORY_SHARE_MAX = 0.4
"""Most of the memory that PostgreSQL's manual finds useful (runtime-config-resource.html)."""
ROOM = 1.25


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


Reason = Literal["small", "slow"]


class Reads(Struct, frozen=True):
    """Reads of data pages."""

    per_s: float
    each_ms: float
    """By track_io_timing; without it, by the sessions seen reading (Little's law)."""
    hit_ratio: float
    buffers_bytes: int
    data_bytes: float

    @property
    def cores(self) -> float:
        """Sessions that read at the same time, on average; the cores that they take where the
        kernel answers from its cache."""
        return self.per_s * self.each_ms / 1000

    @property
    def reason(self) -> Reason:
        """The reason for which sessions wait."""
        if self.data_bytes > self.buffers_bytes and (
            self.buffers_bytes < DEFAULT_BYTES or self.each_ms < CACHE_READ_MS
        ):
            return "small"
        return "slow"


def waiting_parts(s: Situation) -> tuple[Wait, ...]:
    """Return the parts of the latency budget that reads explain: replacing pages too, unless there
    are too many sessions for any lock in shared memory."""
    return ("data",) if crowded(s) else ("data", "buffer mapping")


def reading_share(s: Situation, found: Reads) -> float:
    """Return the share of the response time that reads take: the waits for pages, and behind reads
    that the kernel answers from its cache, which take CPU time, their part of the queue for a
    core."""
    cores = backend_cores(s)
    from_cache = found.each_ms < CACHE_READ_MS and cores > 0
    part = min(1.0, found.cores / cores) if from_cache else 0.0
    return s.budget.own_share(*waiting_parts(s)) + part * s.budget.own_share("ready")


def reads(s: Facts) -> Reads | None:
    """Return the reads; None if there were none. Raises Skip if they were not recorded."""
    read, hit, timed_ms = (
        s.run.delta("metric_database", column, s.slice_ids)
        for column in ("blks_read", "blks_hit", "blk_read_time_ms")
    )
    if read is None or hit is None:
        raise Skip("reads of the database under load were not recorded")
    buffers = s.settings.size_bytes("shared_buffers")
    if buffers is None:
        raise Skip("shared_buffers is not known")
    if not read:
        return None
    per_s = read / s.seconds
    return Reads(
        per_s=per_s,
        each_ms=timed_ms / read if timed_ms else 1000 * s.sessions("data") / per_s,
        hit_ratio=hit / (hit + read),
        buffers_bytes=buffers,
        data_bytes=_data_bytes(s),
    )


def _data_bytes(s: Facts) -> float:
    """Return the size of the tables with their indexes; of the database if it was not recorded."""
    series = s.run.series("metric_table", s.slice_ids)
    sizes = {
        name: size
        for name, size in zip(series["relation"], series["size_bytes"], strict=True)
        if size == size  # without NaN
    }
    return sum(sizes.values()) or float(s.run.run.server.get("database_bytes") or 0.0)


def read_evidence(s: Situation, found: Reads | None) -> list[Evidence]:
    """Return the evidence of both findings on reads."""
    waiting = s.budget.own_share(*waiting_parts(s))
    bar = f"at least {percent(WAITING_SHARE)}"
    evidence = [s.evidence("waiting for pages / response time", waiting, "share", bar)]
    if found is None:
        return evidence
    return [
        *evidence,
        s.evidence("reads of pages", found.per_s, "per s"),
        s.evidence(
            "time of a read", found.each_ms, "ms", f"{CACHE_READ_MS:g} ms and more is a device's"
        ),
        s.evidence("found in shared buffers", found.hit_ratio, "share"),
        s.evidence("shared_buffers", float(found.buffers_bytes), "bytes"),
        s.evidence("tables and indexes", found.data_bytes, "bytes"),
    ]


def ratio_of_fewer(s: Situation, found: Reads, left: float) -> Prediction:
    """Return the predicted ratio with the part ``left`` of the reads.

    Sessions that copy pages from the kernel's cache themselves do so in the time that was measured,
    and replacing the pages takes up to ``COPY_TIMES`` it, all of it CPU time. Otherwise they wait,
    for a device or for the processes that read for them.
    """
    if found.each_ms >= COPY_MS:
        return between(s.loop.ratio(data=left), ratio_of_own_work(s, left))
    used = max(s.own_cores or 0.0, backend_cores(s), found.cores)
    least, most = (
        s.loop.ratio(data=left, cpu=1.0 - (1.0 - left) * min(ALL_MAX, times * found.cores / used))
        for times in (1.0, COPY_TIMES)
    )
    return between(least, most)


def larger_buffers(s: Situation, found: Reads) -> list[Proposal]:
    """Return shared_buffers that hold all data, or as many as the memory allows."""
    host = s.run.run.host
    memory = host.get("memory_bytes") if host.get("same_host_as_server", True) else None
    if not memory:
        return []
    wanted = DEFAULT_BYTES
    while wanted < ROOM * found.data_bytes and 2 * wanted <= MEMORY_SHARE_MAX * memory:
        wanted *= 2
    if wanted <= found.buffers_bytes or wanted > MEMORY_SHARE_MAX * memory:
        return []
    missing, left = (
        max(0.0, 1.0 - size / found.data_bytes) for size in (found.buffers_bytes, wanted)
    )
    part = left / missing if missing else 1.0
    ratio = ratio_of_fewer(s, found, part)
    if ratio < WORTHWHILE_RATIO:
        return []
    size = format_size(wanted)
    why = f"{size} would hold {percent(1.0 - left)} of the tables and indexes"
    change = Change(settings={"shared_buffers": size})
    return [
        Proposal(
            remedy_id="shared-buffers",
            change=change,
            predicted_ratio=ratio,
            why=why,
            specific=found.reason == "small",
        )
    ]
