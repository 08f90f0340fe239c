"""Reads of tables and indexes into shared buffers, why sessions wait for them, and whether the
device that holds the data can do more at once.

Sessions wait for reads for two reasons. ``small``: shared_buffers hold a part of the data only,
and are smaller than PostgreSQL's default or are filled again from the kernel's cache. ``slow``: a
read takes as long as a device needs. A hit ratio tells neither, so it is evidence only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from pgdyno.facts.situation import Situation
from pgdyno.facts.slices import Facts
from pgdyno.facts.tables import MOST, TableCounts, scanned_tables, sizes_bytes
from pgdyno.numbers import percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._contention import crowded
from pgdyno.rules._cpu_uses import ALL_MAX, backend_cores, ratio_of_own_work, ratio_without
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
DOUBLINGS = 24
"""Sizes from the default on that are looked at: up to a petabyte."""
MEMORY_SHARE_MAX = 0.4
"""Most of the memory that PostgreSQL's manual finds useful (runtime-config-resource.html)."""
ROOM = 1.25
RING_TIMES = 4.0
"""A sequential scan of a table larger than shared_buffers divided by this reads through a ring of
256 kB, so that next to none of its pages stay (initscan in heapam.c, buffer/README)."""


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
    scanned: Sequence[tuple[float, float]]
    """Of each table that sequential scans read: its size in bytes, and its part of the reads."""

    def ring_share(self, buffers_bytes: float) -> float:
        """The part of the reads that are of scans through a ring, with such shared_buffers."""
        return sum(part for size, part in self.scanned if RING_TIMES * size > buffers_bytes)

    @property
    def cores(self) -> float:
        """Sessions that read at the same time, on average; the cores that they take where the
        kernel answers from its cache."""
        return self.per_s * self.each_ms / 1000

    @property
    def are_copied(self) -> bool:
        """True if sessions copy pages from the kernel's cache themselves, which takes CPU time."""
        return self.each_ms < COPY_MS

    @property
    def reason(self) -> Reason:
        """The reason for which sessions wait."""
        if self.buffers_bytes >= DEFAULT_BYTES and self.each_ms >= CACHE_READ_MS:
            return "slow"
        return "small" if self.data_bytes > self.buffers_bytes or self.are_of_scans else "slow"

    @property
    def are_of_scans(self) -> bool:
        """True if most are of scans through a ring."""
        return self.ring_share(self.buffers_bytes) >= MOST

    def left(self, buffers_bytes: float) -> float:
        """The part of the reads, 0 to 1, that is left with larger shared_buffers: all of scans that
        still read through a ring, and of the others as much as the part of the data that has no
        room."""
        ring = self.ring_share(buffers_bytes)
        freed = self.ring_share(self.buffers_bytes) - ring
        missing, left = (
            max(0.0, 1.0 - size / self.data_bytes) for size in (self.buffers_bytes, buffers_bytes)
        )
        others = left / missing if missing else 1.0
        return ring + freed * left + (1.0 - ring - freed) * others


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


@lru_cache(maxsize=1)
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
    sizes, scanned = sizes_bytes(s), _scanned(s)
    all_pages = max(per_s, sum(each.read_pages for each in scanned))
    return Reads(
        per_s=per_s,
        each_ms=timed_ms / read if timed_ms else 1000 * s.sessions("data") / per_s,
        hit_ratio=hit / (hit + read),
        buffers_bytes=buffers,
        data_bytes=sum(sizes.values()) or float(s.run.run.server.get("database_bytes") or 0.0),
        scanned=[(sizes.get(each.name, 0.0), each.read_pages / all_pages) for each in scanned],
    )


def are_copied(s: Facts) -> bool:
    """Return whether sessions copy the pages that they read from the kernel's cache themselves."""
    try:
        found = reads(s)
    except Skip:
        return False
    return found is not None and found.are_copied


def _scanned(s: Facts) -> list[TableCounts]:
    try:
        return scanned_tables(s)
    except Skip:
        return []


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

    Sessions that copy pages from the kernel's cache themselves take CPU time for it: of the time
    that was measured the part in which they have a core, and for replacing the pages up to
    ``COPY_TIMES`` the measured time, but no more than a third of the other CPU time. Otherwise they
    wait, for a device or for the processes that read for them.
    """
    if not found.are_copied:
        return between(s.loop.ratio(data=left), ratio_of_own_work(s, left))
    used = max(backend_cores(s), min(found.cores, s.cores))
    copied = min(1.0, found.cores / max(used, s.sessions("cpu", "data")))
    replaced = min(COPY_TIMES * found.cores / used, copied + (1.0 - copied) / 3)
    least, most = (
        ratio_without(s, (1.0 - left) * min(ALL_MAX, part), data=left)
        for part in (copied, replaced)
    )
    return between(least, most)


def larger_buffers(s: Situation, found: Reads) -> list[Proposal]:
    """Return the smallest shared_buffers that save most of the reads, as far as the memory allows;
    none if that gains too little."""
    host = s.run.run.host
    memory = host.get("memory_bytes") if host.get("same_host_as_server", True) else None
    if not memory:
        return []
    possible = _sizes(found.buffers_bytes, MEMORY_SHARE_MAX * memory)
    if not possible:
        return []
    wanted = min(possible, key=lambda size: (found.left(size / ROOM), size))
    left = found.left(wanted)
    ratio = ratio_of_fewer(s, found, left)
    if ratio < WORTHWHILE_RATIO:
        return []
    size = format_size(wanted)
    why = f"{size} would save {percent(1.0 - left)} of the reads of pages"
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


def _sizes(above: float, most: float) -> list[int]:
    """Return the sizes in bytes, powers of two from PostgreSQL's default on, within limits."""
    return [size for n in range(DOUBLINGS) if above < (size := DEFAULT_BYTES << n) <= most]
