"""Buffers that are too few, too many, or written by the wrong process."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.facts.budget import Part
from pgdyno.facts.sight import Sight, Unseen, alter_system, measured, proposed
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, figure, percent, size
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._client_counts import fewer_advice, fewer_clients
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules._reads import (
    WAITING_SHARE,
    DeviceLoad,
    Reads,
    data_device,
    device_evidence,
    larger_buffers,
    ratio_of_fewer,
    read_evidence,
    reading_share,
    reads,
    waiting_parts,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import DEFAULTS
from pgdyno.spec.units import format_size

_MORE_PAGES = ("missing-index", "unusable-index", "unpruned-partitions", "bloated-table")
"""Findings that make statements read more pages than they need."""


@rule(
    "small-shared-buffers",
    false_positives=(
        "a cold start: pages that are read once and then stay in memory; scans of a table that is"
        " larger than a quarter of any shared_buffers that the memory allows"
    ),
)
def small_shared_buffers(s: Situation) -> Found | Cleared:
    """shared_buffers too small: pages are replaced and read again.

    Trigger: reads take at least ``WAITING_SHARE`` of the response time, with their part of the
    queue for a core where the kernel answers them from its cache; the data do not fit in
    shared_buffers, or most reads are of sequential scans of tables so large that their pages are
    not kept; and shared_buffers are below PostgreSQL's default or are filled from the kernel's
    cache (see ``_reads``, which has the thresholds and their sources).
    """
    found = reads(s)
    share = 0.0 if found is None else reading_share(s, found)
    evidence = [
        s.evidence(
            "reading pages / response time", share, "share", f"at least {percent(WAITING_SHARE)}"
        ),
        *read_evidence(s, found),
    ]
    if found is None or share < WAITING_SHARE:
        return Cleared(f"{percent(share)} of {s.budget.own_title} is spent on reads", evidence)
    if found.reason != "small":
        return Cleared("a read takes as long as its device needs", evidence)
    proposals = larger_buffers(s, found)
    return Found(
        sentence=(
            f"{_too_small(found)}: {figure(found.per_s)} pages are read per second,"
            f" {figure(found.each_ms)} ms each"
        ),
        parts=waiting_parts(s),
        share=share * s.budget.begun,
        gain=ratio_of_fewer(s, found, 0.0),
        confidence=0.8,
        evidence=evidence,
        causes=_MORE_PAGES,
        proposals=proposals,
        advice="" if proposals else "larger shared_buffers, as far as the memory allows",
    )


def _too_small(found: Reads) -> str:
    buffers = format_size(found.buffers_bytes)
    if found.are_of_scans:
        return (
            f"sequential scans of tables larger than a quarter of shared_buffers ({buffers}) keep"
            " no pages in them"
        )
    data = size(found.data_bytes)
    return f"shared_buffers of {buffers} are too small for {data} of tables and indexes"


ADVICE = "more memory, a faster disk, or fewer pages per transaction"


@rule(
    "data-reads",
    false_positives=(
        "a cold start: pages that are read once and then stay in memory; a disk that other"
        " programs keep busy"
    ),
)
def data_reads(s: Situation) -> Found | Cleared:
    """Data reads: sessions wait for a device to read pages of tables and indexes.

    Trigger: sessions wait for at least ``WAITING_SHARE`` of the response time for pages
    (IO:DataFileRead and the like, or another session's read of the same page), and not because
    shared_buffers are too small (see ``_reads``, which has the thresholds and their sources).

    Where the device may be at its limit (see ``_reads``), more clients at once only make
    each read take longer, and fewer clients are proposed.
    """
    found = reads(s)
    device = data_device(s)
    evidence = [*read_evidence(s, found), *device_evidence(s, device)]
    share = s.budget.own_share(*waiting_parts(s))
    if found is None or share < WAITING_SHARE:
        return Cleared(
            f"{percent(share)} of {s.budget.own_title} is spent waiting for pages",
            evidence,
            parts=waiting_parts(s),
        )
    if found.reason != "slow":
        return Cleared("reads are due to small shared_buffers", evidence)
    waiting = s.sessions(*waiting_parts(s))
    larger = larger_buffers(s, found)
    saturated = device is not None and device.may_be_saturated
    fewer = fewer_clients(s, waiting, _what(device)) if saturated else []
    advice = "" if larger else ADVICE
    if saturated and not fewer:
        advice = "; ".join(filter(None, (advice, fewer_advice(s, waiting))))
    return Found(
        sentence=(
            f"{percent(share)} of {s.budget.own_title} is spent waiting for pages:"
            f" {figure(found.per_s)} are read per second, {figure(found.each_ms)} ms each"
        ),
        parts=waiting_parts(s),
        removable_share=s.loop.ratio(data=0.0).lifted,
        confidence=0.8,
        evidence=evidence,
        proposals=[*larger, *fewer],
        advice=advice,
    )


def _what(device: DeviceLoad | None) -> str:
    name = "the device" if device is None else device.name
    return f"{name}, if that is at its limit"


WRITTEN_SHARE = 0.3
PAGES_PER_S_MIN = 200.0
BACKEND_WRITES_WAITING_SHARE = 0.05
LIFTABLE = 0.5
"""The background writer's cleaning costs the same writes, only not in a session's time."""
_WAITS: tuple[Part, ...] = ("data write", "sync queue")
_CLEANING = {
    "bgwriter_delay": "20ms",
    "bgwriter_lru_maxpages": "1000",
    "bgwriter_lru_multiplier": "4",
}


class _Writes(Struct, frozen=True):
    """Pages written over the period, by whom."""

    backends: float
    others: float
    syncs: float
    """Syncs of files by client sessions."""
    stopped: float
    """Rounds that the background writer ended at bgwriter_lru_maxpages."""
    time_ms: float | None
    """Time that the sessions' writes took; None before version 16."""

    @property
    def share(self) -> float:
        total = self.backends + self.others
        return self.backends / total if total > 0 else 0.0


@rule(
    "backend-writes",
    false_positives=(
        "bulk loads, which write through rings of buffers of their own; before version 16, tables"
        " that grow; a working set that is larger than any shared_buffers"
    ),
)
def backend_writes(s: Situation) -> Found | Cleared:
    """Backend writes: client sessions write dirty pages themselves before they can use a buffer.

    Trigger: client sessions wrote at least ``WRITTEN_SHARE`` of the pages that were written to
    tables and indexes, and at least ``PAGES_PER_S_MIN`` pages a second; or they synced files
    themselves, which happens where the checkpointer's queue is full; or they wait for writes of
    data files or for room in that queue for at least ``BACKEND_WRITES_WAITING_SHARE`` of the
    response time.

    Thresholds: pg_gather warns where backends write more than 20 %, and alarms at 30 %; db-triage
    at any sync by a backend. The share of the response time is what the writes took, which needs
    track_io_timing. Calibrated by injection: with shared_buffers of 4 MB and no cleaning, they
    wrote 10,000 pages/s, and half a percent of their time went into it, as the kernel took the
    pages; with backend_flush_after on a disk that writes 16 MB/s, 1,200 pages/s and 65 %.

    Versions: from 16 pg_stat_io counts writes by who made them; before, pg_stat_bgwriter counts
    what backends wrote together with what they added to files, so the share is too high where
    tables grow.
    """
    writes = _by_io(s) or _by_counters(s)
    if writes is None:
        raise Skip("who writes pages was not recorded")
    per_s = writes.backends / s.seconds
    share = _of_response(s, writes)
    evidence = _evidence(s, writes, share)
    many = writes.share >= WRITTEN_SHARE and per_s >= PAGES_PER_S_MIN
    if not many and not writes.syncs and s.budget.own_share(*_WAITS) < BACKEND_WRITES_WAITING_SHARE:
        return Cleared(
            f"client sessions write {percent(writes.share)} of the pages, {figure(per_s)}/s",
            evidence,
            parts=_WAITS,
        )
    syncs = f", and made {counted(writes.syncs, 'sync', 'syncs')}" if writes.syncs else ""
    return Found(
        sentence=(
            f"client sessions write {percent(writes.share)} of the dirty pages themselves,"
            f" {figure(per_s)}/s{syncs}: the background writer does not clean enough"
        ),
        parts=_WAITS,
        share=share,
        removable_share=LIFTABLE,
        confidence=0.7,
        evidence=evidence,
        proposals=[*_unflushed(s, share), *_proposals(share)],
        advice=(
            "let the background writer clean more (bgwriter_lru_maxpages, bgwriter_lru_multiplier,"
            " a shorter bgwriter_delay), or make shared_buffers large enough for the pages in use"
        ),
    )


def _by_io(s: Situation) -> _Writes | None:
    """Return the writes by pg_stat_io; None before version 16."""

    def rise(column: str, **where: object) -> float | None:
        of_tables = {"object": "relation", "context": "normal", **where}
        return s.run.delta("metric_io", column, s.slice_ids, where=of_tables)

    everything = rise("writes")
    if everything is None:
        return None
    backends = rise("writes", backend_type=CLIENT_BACKEND) or 0.0
    return _Writes(
        backends,
        everything - backends,
        rise("fsyncs", backend_type=CLIENT_BACKEND) or 0.0,
        s.run.delta("metric_bgwriter", "maxwritten_clean", s.slice_ids) or 0.0,
        rise("write_time_ms", backend_type=CLIENT_BACKEND),
    )


def _by_counters(s: Situation) -> _Writes | None:
    """Return the writes by pg_stat_bgwriter, until version 16."""
    backends = s.run.delta("metric_bgwriter", "buffers_backend", s.slice_ids)
    if backends is None:
        return None
    cleaned = s.run.delta("metric_bgwriter", "buffers_clean", s.slice_ids) or 0.0
    checkpoints = s.run.delta("metric_checkpointer", "buffers_written", s.slice_ids) or 0.0
    return _Writes(
        backends,
        cleaned + checkpoints,
        s.run.delta("metric_bgwriter", "buffers_backend_fsync", s.slice_ids) or 0.0,
        s.run.delta("metric_bgwriter", "maxwritten_clean", s.slice_ids) or 0.0,
        None,
    )


def _of_response(s: Situation, writes: _Writes) -> float:
    """Return the share of the response time that the writes took, as timed or, if that is more, as
    sessions were seen waiting."""
    response_ms = s.budget.response_ms * s.throughput_tps * s.seconds
    timed = min(1.0, (writes.time_ms or 0.0) / response_ms) if response_ms > 0 else 0.0
    return max(timed, s.budget.share(*_WAITS))


def _evidence(s: Situation, writes: _Writes, share: float) -> list[Evidence]:
    return [
        s.evidence("pages written by client sessions / all", writes.share, "share",
                   f"at least {percent(WRITTEN_SHARE)}"),
        s.evidence("pages written by client sessions", writes.backends / s.seconds, "count/s",
                   f"at least {figure(PAGES_PER_S_MIN)}"),
        s.evidence("syncs by client sessions", writes.syncs, "count", "any"),
        s.evidence("rounds ended at bgwriter_lru_maxpages", writes.stopped, "count"),
        s.evidence("these writes / response time", share, "share"),
    ]  # fmt: skip


def _unflushed(s: Situation, share: float) -> list[Proposal]:
    """Return the default of backend_flush_after, where sessions wait for their pages to leave the
    kernel."""
    name = "backend_flush_after"
    ratio = 1.0 / (1.0 - min(0.9, share * LIFTABLE))
    if (s.settings.text(name) or DEFAULTS[name]) == DEFAULTS[name] or ratio < WORTHWHILE_RATIO:
        return []
    why = "sessions would leave their pages to the kernel"
    return [
        Proposal(
            remedy_id="reset-setting",
            change=Change(settings={name: DEFAULTS[name]}),
            predicted_ratio=ratio,
            why=why,
        )
    ]


def _proposals(share: float) -> list[Proposal]:
    ratio = 1.0 / (1.0 - min(0.9, share * LIFTABLE))
    if ratio < WORTHWHILE_RATIO:
        return []
    why = "pages would be clean before a session needs their buffers"
    return [
        Proposal(
            remedy_id="bgwriter",
            change=Change(settings=dict(_CLEANING)),
            predicted_ratio=ratio,
            why=why,
        )
    ]


SHARE = 0.75


@rule(
    "cache-size-estimate",
    looks=("setting",),
    false_positives="a file cache outside the server's control group",
)
def cache_size_estimate(sight: Sight) -> Found | Cleared:
    """effective_cache_size, the planner's idea of the cache, cannot be right.

    Trigger: it is smaller than shared_buffers, which is a part of it; or larger than the memory
    that the server may use. Threshold: none; both contradict what the setting means. It only moves
    plans, so it is minor.
    """
    cache = sight.setting("effective_cache_size")
    buffers = sight.setting("shared_buffers").bytes
    memory = _memory(sight)
    evidence = [
        measured("effective_cache_size", cache.bytes, "bytes", "at least shared_buffers"),
        measured("shared_buffers", buffers, "bytes"),
        *([] if memory is None else [measured("memory of the server", memory, "bytes")]),
    ]
    too_large = memory is not None and cache.bytes > memory and not cache.is_default
    if cache.bytes >= buffers and not too_large:
        return Cleared("effective_cache_size is possible", evidence)
    than = (
        f"the memory of {size(memory)}"
        if memory and too_large
        else f"shared_buffers ({size(buffers)})"
    )
    value = f"{int(SHARE * memory if memory else 2 * buffers) >> 20}MB"
    return Found(
        sentence=(
            f"effective_cache_size of {size(cache.bytes)} is {'larger' if too_large else 'smaller'}"
            f" than {than}: plans assume a cache of the wrong size"
        ),
        severity="minor",
        confidence=0.8,
        evidence=evidence,
        commands=alter_system({"effective_cache_size": f"'{value}'"}),
    )


def _memory(sight: Sight) -> float | None:
    try:
        return float(sight.host["memory_bytes"])
    except Unseen:
        return None


LARGE_BUFFERS_SHARE = 0.4
DANGER_SHARE = 0.75


@rule(
    "large-shared-buffers",
    looks=("setting",),
    false_positives="a database that fits in shared_buffers as a whole, with few sessions",
)
def large_shared_buffers(sight: Sight) -> Found | Cleared:
    """shared_buffers takes most of the memory: little is left for sessions and the file cache.

    Trigger: shared_buffers is more than ``LARGE_BUFFERS_SHARE`` of the memory that
    the server may use, that of its control group where it has a limit; from ``DANGER_SHARE`` on it
    costs something.

    Threshold: PostgreSQL's documentation ("Resource Consumption") calls more than 40 % of the
    memory unlikely to work better. At three quarters, what is left is smaller than what the
    sessions of a busy server take: our reasoning.
    """
    memory = float(sight.host["memory_bytes"])
    buffers = sight.setting("shared_buffers").bytes
    share = buffers / memory
    evidence = [
        measured("shared_buffers", buffers, "bytes"),
        measured("memory that the server may use", memory, "bytes"),
        measured(
            "shared_buffers / memory",
            share,
            "share",
            f"more than {percent(LARGE_BUFFERS_SHARE)}",
        ),
    ]
    if share <= LARGE_BUFFERS_SHARE:
        return Cleared(f"shared_buffers are {percent(share)} of the memory", evidence)
    value = f"{int(memory / 4) >> 20}MB"
    return Found(
        sentence=(
            f"shared_buffers of {size(buffers)} are {percent(share)} of the memory that the server"
            f" may use ({size(memory)}); little is left for sessions and the file cache"
        ),
        severity="costs" if share >= DANGER_SHARE else "minor",
        confidence=0.7,
        evidence=evidence,
        commands=alter_system({"shared_buffers": f"'{value}'"}, restart=True),
        proposals=[
            proposed("shared-buffers", "memory for sessions and files", {"shared_buffers": value})
        ],
    )


SMALL_BUFFERS_SHARE = 0.1
DATA_TIMES = 4
READ_PER_S_MIN = 100.0
READ_TIMES = 10
COUNTED_S_MIN = 3600.0


@rule(
    "small-shared-buffers-for-data",
    looks=("server", "setting", "relation_total", "database"),
    covered_by=("small-shared-buffers", "data-reads"),
    false_positives="a machine that other programs share; large scans, which pass by the buffers",
)
def small_shared_buffers_for_data(sight: Sight) -> Found | Cleared:
    """shared_buffers is a small part of the memory, and data is read over and over.

    Trigger: shared_buffers is less than ``SMALL_BUFFERS_SHARE`` of the
    memory that the server may use; the database is at least ``DATA_TIMES`` as large as they are;
    and since the statistics began, ``COUNTED_S_MIN`` or more ago, at least ``READ_PER_S_MIN`` pages
    a second were read from outside, and in all at least ``READ_TIMES`` as many as shared_buffers
    have.

    Thresholds: PostgreSQL's documentation recommends a quarter of the memory for a start; less than
    a tenth is far from it. A hundred pages a second cost about a thousandth of a core from the file
    cache: below that it is nothing. A small database needs no more, whatever the memory.
    """
    memory = float(sight.host["memory_bytes"])
    buffers = sight.setting("shared_buffers").bytes
    data = float(sight.row("relation_total")["bytes"])
    server = sight.row("server")
    counted_s = server["counters_s"] or server["uptime_s"]
    if counted_s < COUNTED_S_MIN:
        raise Skip("the statistics are too young")
    reads = sum(row["blks_read"] or 0 for row in sight.rows("database") if row["current"])
    per_s = reads / counted_s
    evidence = [
        measured("shared_buffers", buffers, "bytes", "less than a tenth of the memory"),
        measured("memory that the server may use", memory, "bytes"),
        measured("size of the database", data, "bytes", f"at least {DATA_TIMES} times as large"),
        measured("pages read from outside", per_s, "count/s", f"at least {READ_PER_S_MIN:g}/s"),
    ]
    enough = buffers >= SMALL_BUFFERS_SHARE * memory or data < DATA_TIMES * buffers
    read_again = reads * server["block_bytes"] >= READ_TIMES * buffers and per_s >= READ_PER_S_MIN
    if enough or not read_again:
        return Cleared("shared_buffers are large enough for what is read", evidence)
    value = f"{int(memory / 4) >> 20}MB"
    return Found(
        sentence=(
            f"shared_buffers are {size(buffers)}, the memory is {size(memory)} and the database"
            f" {size(data)}: {figure(per_s)} pages per second are read from outside"
        ),
        severity="costs",
        confidence=0.5,
        evidence=evidence,
        commands=alter_system({"shared_buffers": f"'{value}'"}, restart=True),
        proposals=[
            proposed("shared-buffers", "fewer pages read from outside", {"shared_buffers": value})
        ],
    )


FULL_PER_S_MIN = 50.0
BUFFERS_BYTES_MAX = 64 << 20


@rule(
    "wal-buffers-full",
    looks=("setting", "wal_total"),
    covered_by=("costly-settings",),
    false_positives="a load of data that is over, in statistics that began lately",
)
def wal_buffers_full(sight: Sight) -> Found | Cleared:
    """WAL buffers are full again and again: sessions write WAL out to make room.

    Trigger: since the statistics began, ``COUNTED_S_MIN`` or more ago, it has happened at least
    ``FULL_PER_S_MIN`` times a second, and wal_buffers is below ``BUFFERS_BYTES_MAX``. Threshold:
    0.2 ms of CPU time each, as calibrated for the finding costly-settings, is a hundredth of a core
    at this rate. db-triage wants a tenth of all writes of WAL, which version 18 no longer counts.
    """
    total = sight.row("wal_total")
    if (total["counters_s"] or 0.0) < COUNTED_S_MIN:
        raise Skip("the statistics of WAL are too young, or their age is not known")
    per_s = total["wal_buffers_full"] / total["counters_s"]
    buffers = sight.setting("wal_buffers").bytes
    evidence = [
        measured("WAL buffers full", per_s, "count/s", f"at least {FULL_PER_S_MIN:g}/s"),
        measured("wal_buffers", buffers, "bytes", "less than 64 MB"),
    ]
    if per_s < FULL_PER_S_MIN or buffers >= BUFFERS_BYTES_MAX:
        return Cleared("WAL buffers are large enough", evidence)
    return Found(
        sentence=(
            f"the WAL buffers of {size(buffers)} are full {figure(per_s)} times a second on"
            " average,"
            " and sessions write WAL to make room"
        ),
        severity="costs",
        confidence=0.6,
        evidence=evidence,
        commands=alter_system({"wal_buffers": "'64MB'"}, restart=True),
        proposals=[proposed("wal-buffers", "fewer writes of WAL", {"wal_buffers": "64MB"})],
    )
