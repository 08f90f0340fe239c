"""The time of a WAL sync, where it was measured.

With ``commit_delay`` the session that is about to flush sleeps first, with the lock held for which
all others queue, if at least ``commit_siblings`` other transactions are open (XLogFlush in xlog.c).
Until version 18 the sleep has no wait event: the sleeper looks as if it were running.

The device is called slow where a sync takes ``SLOW_SYNC_MS`` or more. A device whose cache survives
a power cut takes under 0.1 ms, others with flash 0.5 to 2 ms, a disk of 7,200 rotations a minute
one rotation, 8.3 ms; calibrated by injection, flushes of 2 and 5 ms. Where the kernel counts the
device's own flushes, they have to be slow too: on busy cores a sync includes the queue for a core.
Where it does not, the device is not called slow unless cores are idle (``SPARE_SHARE``).
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from pgdyno.facts.sessions import SPARE_SHARE
from pgdyno.facts.slices import QUEUED_BUSY_SHARE, Facts
from pgdyno.numbers import figure
from pgdyno.wait_events import HEAVYWEIGHT, WAL_QUEUE, WAL_SYNC, WAL_WRITE, canonical

SLOW_SYNC_MS = 2.0
DEVICE_PART = 0.5
"""Part of a slow sync that the device's own flush takes at least."""
HAS_DELAY_EVENT = 190000
"""Version from which the sleep is the wait event Timeout:CommitDelay."""
SIBLINGS = 5.0
"""PostgreSQL's default of commit_siblings."""
DELAY_FITS = 1.2
"""Syncs per second times commit_delay are at most 1 if each waited for it; more than this with
the error of counting at a period's edges means that some did not."""
UNSEEN = 3.0
"""Most that a count which was 0 is expected to be, at 95 % (the rule of three: Hanley and
Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983)."""


class SyncTime(Struct, frozen=True):
    """The mean time of a WAL sync."""

    ms: float
    sampled: bool
    """True if it comes from sampled wait events; else the server timed it."""
    at_most: bool = False
    """True if no sample saw a sync: it takes less."""

    @property
    def title(self) -> str:
        """Name of the time, with its source unless the server timed it."""
        source = ", sampled, at most" if self.at_most else ", sampled" if self.sampled else ""
        return f"time of a WAL sync{source}"


def syncs(s: Facts) -> float | None:
    """Return the WAL syncs of the period; writes, where wal_sync_method makes each a sync."""
    written_through = (s.settings.text("wal_sync_method") or "").startswith("open_")
    counted = s.run.delta("metric_wal", "wal_write" if written_through else "wal_sync", s.slice_ids)
    return counted or None


def sync_time(s: Facts) -> SyncTime | None:
    """Return the time of a WAL sync as the server timed it, or from samples; None if neither.

    Samples: the average number of sessions seen in a sync is, by Little's law, syncs per second
    times the time of one.
    """
    count = syncs(s)
    if not count:
        return None
    written_through = (s.settings.text("wal_sync_method") or "").startswith("open_")
    column = "wal_write_time_ms" if written_through else "wal_sync_time_ms"
    timed_ms = s.run.delta("metric_wal", column, s.slice_ids)
    if timed_ms:
        return SyncTime(timed_ms / count, sampled=False)
    inside = _sessions_in(s, WAL_WRITE if written_through else WAL_SYNC)
    seen_ms = 1000 * inside * s.seconds / count
    return SyncTime(seen_ms, sampled=True) if seen_ms > 0 else None


def longest_sync(s: Facts) -> SyncTime | None:
    """Return the time of a WAL sync, or the most that it takes where no sample saw one; None if the
    syncs were not counted, or nothing was sampled."""
    known, count = sync_time(s), syncs(s)
    if known is not None or not count or not s.samplings:
        return known
    unseen_ms = 1000 * UNSEEN / s.samplings * s.seconds / count
    return SyncTime(unseen_ms, sampled=True, at_most=True)


def device_flush_ms(s: Facts) -> float | None:
    """Return the time of a flush by the device of the WAL, as the kernel counted it."""
    series = s.run.series("metric_disk", s.slice_ids)
    for device, holds in sorted(set(zip(series["device"], series["holds"], strict=True))):
        if "wal" not in str(holds).split(","):
            continue
        only = {"device": device}
        flushes = s.run.delta("metric_disk", "flushes", s.slice_ids, where=only)
        flush_ms = s.run.delta("metric_disk", "flush_ms", s.slice_ids, where=only)
        if flushes and flush_ms is not None:
            return flush_ms / flushes
    return None


def starved_part(s: Facts) -> float:
    """Return the part of a sync that may be a wait for a core: what it takes beyond the device's
    own flush, where ``QUEUED_BUSY_SHARE`` of the cores are at work; 0 if that is not known."""
    cpu, sync, device_ms = s.cpu_if_recorded, sync_time(s), device_flush_ms(s)
    if cpu is None or sync is None or device_ms is None or cpu.busy_share < QUEUED_BUSY_SHARE:
        return 0.0
    return max(0.0, 1.0 - device_ms / sync.ms)


def device_words(s: Facts) -> str:
    """Return a clause on the time of a sync, and what of it is the device's; '' if neither was
    measured."""
    sync, device_ms = sync_time(s), device_flush_ms(s)
    if sync is None:
        return "" if device_ms is None else f"; the device flushes in {figure(device_ms)} ms"
    each, slow = f"; a sync takes {figure(sync.ms)} ms", sync.ms >= SLOW_SYNC_MS
    if device_ms is None:
        return f"{each}{_without_the_device(s)}" if slow else each
    if slow and device_ms >= DEVICE_PART * sync.ms:
        return f"{each}: the device is slow"
    return f"{each}, of which the device's flush is {figure(min(device_ms, sync.ms))} ms"


def _without_the_device(s: Facts) -> str:
    """Return the meaning of a slow sync where the device's own flushes were not counted: with idle
    cores the device is slow; without, the sync may have waited for a core."""
    cpu = s.cpu_if_recorded
    if cpu is not None and cpu.idle_share >= SPARE_SHARE:
        return ": the device is slow"
    return ", the device's own part of which is not known"


def delay_ms(s: Facts) -> float:
    """Return the mean commit_delay of a flush: 0 where it is off or there are never enough
    transactions open, and less than what is configured where only some flushes wait for it."""
    delay = s.settings.duration_ms("commit_delay") or 0.0
    if delay <= 0 or s.settings.is_on("fsync") is False:
        return 0.0
    configured = s.settings.number("commit_siblings")
    siblings = SIBLINGS if configured is None else configured
    uncounted = s.sessions(*HEAVYWEIGHT) + 1  # Blocked ones, and the one that flushes.
    if siblings > 0 and max(s.sessions_at_work, s.sessions_max) - uncounted < siblings:
        return 0.0
    are_enough = siblings <= 0 or s.sessions_at_work - uncounted >= siblings
    asleep_if_each = (syncs(s) or 0.0) / s.seconds * delay / 1000
    if are_enough and asleep_if_each <= DELAY_FITS:
        return delay
    return delay * min(1.0, _asleep_part(s) / asleep_if_each) if asleep_if_each else 0.0


def _asleep_part(s: Facts) -> float:
    """Return the part of the time, 0 to 1, for which sessions queue for a flush while none writes
    or flushes WAL: the one that they wait for is asleep. At least, as all others are taken to queue
    whenever one is at it.

    Of 198 syncs a second, a fifth waited 10 ms for commit_delay: 5.1 of 7 others queued, where one
    flushed for a third of the time. Without it the throughput was 1.7 times as high.
    """
    at_work = min(1.0, _sessions_in(s, WAL_SYNC | WAL_WRITE))
    queued = min(1.0, flush_queue(s) / max(1.0, s.in_service - 1.0))
    return max(0.0, queued - at_work)


def flush_queue(s: Facts) -> float:
    """Return the sessions that wait for another's flush, on average."""
    return _sessions_in(s, WAL_QUEUE)


def _sessions_in(s: Facts, events: Collection[str]) -> float:
    """Return the sessions in these wait events, on average."""
    return sum(n for event, n in s.by_event.items() if canonical(*event) in events)


def sleepers(s: Facts) -> float:
    """Return the sessions that sleep for commit_delay without a wait event, on average."""
    if s.server_version_num >= HAS_DELAY_EVENT:
        return 0.0
    return min(1.0, (syncs(s) or 0.0) / s.seconds * delay_ms(s) / 1000)


def delay_part_of_flush(s: Facts) -> float:
    """Return the part of the time behind another's flush that is its commit_delay, 0 to 1."""
    delay, sync = delay_ms(s), longest_sync(s)
    return 0.0 if delay <= 0 or sync is None else delay / (delay + sync.ms)
