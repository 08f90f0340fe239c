"""Backend writes: client sessions write dirty pages themselves before they can use a buffer.

Trigger: client sessions wrote at least ``WRITTEN_SHARE`` of the pages that were written to tables
and indexes, and at least ``PAGES_PER_S_MIN`` pages a second; or they synced files themselves, which
happens where the checkpointer's queue is full; or they wait for writes of data files or for room in
that queue for at least ``WAITING_SHARE`` of the response time.

Thresholds: pg_gather warns where backends write more than 20 %, and alarms at 30 %; db-triage at
any sync by a backend. The share of the response time is what the writes took, which needs
track_io_timing. Calibrated by injection: with shared_buffers of 4 MB and no cleaning, they wrote
10,000 pages/s, and half a percent of their time went into it, as the kernel took the pages; with
backend_flush_after on a disk that writes 16 MB/s, 1,200 pages/s and 65 %.

Versions: from 16 pg_stat_io counts writes by who made them; before, pg_stat_bgwriter counts what
backends wrote together with what they added to files, so the share is too high where tables grow.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.slices import CLIENT_BACKEND
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.spec.change import Change
from pgdyno.spec.setting_defaults import DEFAULTS

WRITTEN_SHARE = 0.3
PAGES_PER_S_MIN = 200.0
WAITING_SHARE = 0.05
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


def examine(s: Situation) -> Found | Cleared:
    """Examine who writes dirty pages."""
    writes = _by_io(s) or _by_counters(s)
    if writes is None:
        raise Skip("who writes pages was not recorded")
    per_s = writes.backends / s.seconds
    share = _of_response(s, writes)
    evidence = _evidence(s, writes, share)
    many = writes.share >= WRITTEN_SHARE and per_s >= PAGES_PER_S_MIN
    if not many and not writes.syncs and s.budget.share(*_WAITS) < WAITING_SHARE:
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
        liftable=LIFTABLE,
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


SIGNATURE = Signature(
    id="backend-writes",
    false_positives=(
        "bulk loads, which write through rings of buffers of their own; before version 16, tables"
        " that grow; a working set that is larger than any shared_buffers"
    ),
    examine=examine,
)
