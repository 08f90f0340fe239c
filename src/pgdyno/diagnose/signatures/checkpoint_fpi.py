"""Checkpoints that are too frequent, and the burst of full-page images after each of them.

The first change of a page after a checkpoint writes the whole page into the WAL. Two triggers:

- images: at least ``IMAGES_PER_RECORD`` of the WAL records contain one (db-triage's threshold,
  wal_fpi / wal_records), or images are at least ``IMAGE_BYTES_SHARE`` of the WAL's bytes
  (calibrated by injection: right after a checkpoint, and long after one), at a WAL rate of at
  least ``WAL_BYTES_S_MIN``;
- distance: at this WAL rate, max_wal_size triggers the next checkpoint within ``FREQUENT_S``,
  with or without images: the default of checkpoint_warning, below which PostgreSQL recommends
  raising max_wal_size (runtime-config-wal.html#GUC-CHECKPOINT-WARNING in its documentation). The
  distance is max_wal_size / (1 + checkpoint_completion_target), as PostgreSQL computes it.

A larger distance is proposed where max_wal_size triggers the checkpoints, before
checkpoint_timeout and within ``INTERVAL_S`` (pg_gather calls under 10 minutes too frequent).

A period shorter than a checkpoint cycle contains either the burst of images or the time after it,
not their mean, so the distance is computed from the WAL rate instead of counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.diagnose._latency_budget import image_part_of_flush
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Evidence, Proposal
from pgdyno.diagnose.words import figure, percent
from pgdyno.spec.change import Change

IMAGES_PER_RECORD = 0.3
IMAGE_BYTES_SHARE = 0.5
WAL_BYTES_S_MIN = 1 << 20
FREQUENT_S = 30.0
INTERVAL_S = 600.0
TARGET_INTERVAL_S = 900.0
WAL_GB_MAX = 16
"""The largest value proposed; more than this requires knowledge of the disk."""
IMAGE_CPU_S = 10e-6
"""CPU time to copy, checksum and insert one image; calibrated with full_page_writes off."""
# Compressed size as a part of the original, and CPU seconds per image. Up to version 14
# wal_compression accepts only "on", which is pglz; from 15 on it accepts a method.
_METHODS = {"lz4": (0.45, 12e-6), "zstd": (0.35, 30e-6), "pglz": (0.4, 80e-6)}
_GB = 1 << 30


@dataclass(frozen=True)
class _Pace:
    """Rate and composition of the WAL, and the time to the next checkpoint."""

    bytes_s: float
    images: float
    images_per_record: float
    image_share: float
    interval_s: float | None
    timeout_s: float | None

    @property
    def cycle_s(self) -> float | None:
        """Seconds from one checkpoint to the next."""
        known = [seconds for seconds in (self.interval_s, self.timeout_s) if seconds is not None]
        return min(known, default=None)

    @property
    def many_images(self) -> bool:
        """True if many records contain an image."""
        return self.images_per_record >= IMAGES_PER_RECORD

    @property
    def much_of_wal(self) -> bool:
        """True if images are a large part of the bytes."""
        return self.image_share >= IMAGE_BYTES_SHARE

    @property
    def image_burst(self) -> bool:
        return (self.many_images or self.much_of_wal) and self.bytes_s >= WAL_BYTES_S_MIN

    @property
    def frequent(self) -> bool:
        return self.interval_s is not None and self.interval_s < FREQUENT_S

    @property
    def by_size(self) -> bool:
        """True if max_wal_size triggers the next checkpoint, within ``INTERVAL_S``."""
        latest = min(INTERVAL_S, self.timeout_s or INTERVAL_S)
        return self.interval_s is not None and self.interval_s < latest

    @property
    def found(self) -> bool:
        return self.image_burst or self.frequent


def examine(s: Situation) -> Found | Cleared:
    """Check the server's WAL counters and its checkpoint settings."""
    pace = _pace(s)
    evidence = _evidence(s, pace)
    if not pace.found:
        every = (
            ""
            if pace.interval_s is None
            else f"; max_wal_size would trigger a checkpoint every {figure(pace.interval_s)} s"
        )
        return Cleared(
            f"full-page images are {percent(pace.image_share)} of the WAL{every}", evidence
        )
    without = _ratio(s, pace, keep=0.0)
    return Found(
        sentence=_sentence(pace),
        share=s.latency_budget.share("images"),
        liftable=1.0 - 1.0 / max(1.0, without),
        confidence=0.8 if pace.image_burst and pace.by_size else 0.6,
        evidence=evidence,
        proposals=_proposals(s, pace, without),
    )


def _pace(s: Situation) -> _Pace:
    wal = s.wal
    bytes_s = wal.bytes / s.seconds
    size = s.settings.size_bytes("max_wal_size")
    target = s.settings.number("checkpoint_completion_target")
    timeout_ms = s.settings.duration_ms("checkpoint_timeout")
    distance = None if size is None or target is None else size / (1.0 + target)
    return _Pace(
        bytes_s=bytes_s,
        images=wal.full_page_images or 0.0,
        images_per_record=(wal.full_page_images or 0.0) / wal.records if wal.records else 0.0,
        image_share=(wal.full_page_bytes or 0.0) / wal.bytes if wal.bytes else 0.0,
        interval_s=distance / bytes_s if distance and bytes_s > 0 else None,
        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
    )


def _sentence(pace: _Pace) -> str:
    images = f"full-page images are {percent(pace.image_share)} of the WAL"
    if not pace.by_size or pace.interval_s is None:
        return f"{images}, {figure(pace.bytes_s / 1e6)} MB/s"
    every = figure(pace.interval_s)
    return f"{images}; at this rate max_wal_size triggers a checkpoint every {every} s"


def _evidence(s: Situation, pace: _Pace) -> list[Evidence]:
    """Evidence; a finding lists the thresholds that were met, a cleared check all thresholds."""

    def threshold_if(met: bool, threshold: str) -> str | None:
        return threshold if met or not pace.found else None

    evidence = [
        s.evidence(
            "WAL written",
            pace.bytes_s,
            "bytes/s",
            threshold_if(pace.image_burst, "at least 1 MB/s"),
        ),
        s.evidence(
            "full-page images / WAL bytes (estimate)",
            pace.image_share,
            "share",
            threshold_if(
                pace.image_burst and pace.much_of_wal, f"at least {percent(IMAGE_BYTES_SHARE)}"
            ),
        ),
        s.evidence(
            "full-page images / WAL records",
            pace.images_per_record,
            "share",
            threshold_if(
                pace.image_burst and pace.many_images, f"at least {percent(IMAGES_PER_RECORD)}"
            ),
        ),
        s.evidence(
            "full-page images per transaction",
            pace.images / (s.throughput_tps * s.seconds),
            "images",
        ),
        s.evidence("full-page images / time of a WAL flush (estimate)", _of_flush(s), "share"),
    ]
    if pace.interval_s is not None:
        evidence.append(
            s.evidence(
                "time to the next checkpoint at this rate",
                pace.interval_s,
                "s",
                threshold_if(pace.frequent, f"less than {FREQUENT_S:.0f} s"),
            )
        )
    done = len(_checkpoints(s))
    return [*evidence, s.evidence("checkpoints", done, "count")]


def _checkpoints(s: Situation) -> list[str]:
    began, ended = s.window_ms
    return [
        event.label
        for event in s.run.events("checkpoint")
        if event.at_ms <= ended and event.at_ms + (event.duration_ms or 0.0) >= began
    ]


def _of_flush(s: Situation) -> float:
    return image_part_of_flush(s)


def _ratio(s: Situation, pace: _Pace, *, keep: float, extra_cpu_s: float = 0.0) -> float:
    """Predicted ratio with ``keep`` of the images' bytes left and ``extra_cpu_s`` spent on each."""
    each = pace.images / (s.throughput_tps * s.seconds)
    saved_s = IMAGE_CPU_S * (1.0 - keep) - extra_cpu_s
    cpu = max(0.5, 1.0 - each * saved_s / s.loop.cpu_s) if s.loop.cpu_s > 0 else 1.0
    # The number of flushes does not change, nor does their CPU time: undo the model's saving.
    flush = 1.0 - _of_flush(s) * (1.0 - keep)
    undone = 1.0 - s.loop.flush_cpu * (1.0 - flush)
    return s.loop.ratio(flush=flush, cpu=cpu / undone)


def _proposals(s: Situation, pace: _Pace, without: float) -> list[Proposal]:
    proposals = []
    if s.settings.is_on("full_page_writes") is not False:
        proposals.append(
            Proposal(
                "full-page-writes-off",
                Change(settings={"full_page_writes": "off"}),
                without,
                "the WAL would contain changes only",
                pace.cycle_s,
            )
        )
    proposals += _distance(s, pace) + _compression(s, pace)
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]


def _distance(s: Situation, pace: _Pace) -> list[Proposal]:
    """Return max_wal_size and checkpoint_timeout for a checkpoint every 15 minutes at this rate.

    A page is imaged at most once per checkpoint, so checkpoints k times less frequent leave at
    least 1/k of the images; at least a tenth is assumed to remain, for pages that change rarely.
    """
    now = s.settings.size_bytes("max_wal_size")
    if not pace.by_size or now is None:
        return []
    needed = 2 * TARGET_INTERVAL_S * pace.bytes_s
    size_gb = 2
    while size_gb * _GB < needed and size_gb < WAL_GB_MAX:
        size_gb *= 2
    if size_gb * _GB <= now:
        return []
    rarer = size_gb * _GB / now
    timeout_s = max(TARGET_INTERVAL_S, pace.timeout_s or 0.0)
    return [
        Proposal(
            "checkpoint-distance",
            Change(
                settings={
                    "max_wal_size": f"{size_gb}GB",
                    "checkpoint_timeout": f"{timeout_s / 60:.0f}min",
                }
            ),
            _ratio(s, pace, keep=max(0.1, 1.0 / rarer)),
            f"checkpoints would be up to {figure(rarer)} times less frequent, with fewer images",
            pace.cycle_s,
        )
    ]


def _compression(s: Situation, pace: _Pace) -> list[Proposal]:
    if not pace.image_burst or s.settings.is_on("wal_compression") is not False:
        return []
    method = next((name for name in ("lz4", "zstd") if s.can(name)), "pglz")
    value = method if s.server_version_num >= 150000 else "on"
    keep, extra_cpu_s = _METHODS["pglz" if value == "on" else method]
    return [
        Proposal(
            "wal-compression",
            Change(settings={"wal_compression": value}),
            _ratio(s, pace, keep=keep, extra_cpu_s=extra_cpu_s),
            f"images would be compressed to about {percent(keep)} of their size",
            pace.cycle_s,
        )
    ]


SIGNATURE = Signature(
    id="checkpoint-fpi",
    false_positives=(
        "a measured period shorter than a checkpoint cycle, which shows more images right after the"
        " checkpoint than the mean over the cycle; a bulk load, which changes each page only once,"
        " however frequent the checkpoints are"
    ),
    examine=examine,
)
