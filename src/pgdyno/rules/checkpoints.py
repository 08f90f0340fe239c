"""Checkpoints and the full pages that they make WAL of."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.facts.budget import image_part_of_flush
from pgdyno.facts.drops import DROP_SHARE, Drops, ThroughputDrop, find_drops
from pgdyno.facts.flush import delay_part_of_flush
from pgdyno.facts.situation import Situation
from pgdyno.facts.tables import (
    COST_SHARE,
    MOST,
    Missed,
    hot_evidence,
    missed_updates,
    missed_words,
)
from pgdyno.numbers import duration, figure, percent, size
from pgdyno.record.events import overlaps_own, own_events
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._cpu_uses import cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import DEFAULTS
from pgdyno.stats.prediction import Prediction

IMAGES_PER_RECORD = 0.3
IMAGE_BYTES_SHARE = 0.5
WAL_BYTES_S_MIN = 1 << 20
ROWS_WRITTEN_MIN = 0.01
"""Rows written per transaction; with fewer, the load writes nothing, and the WAL is not its own."""
FREQUENT_S = 30.0
INTERVAL_S = 600.0
WANTED_INTERVAL_S = 900.0
WAL_GB_MAX = 16
"""Proposed at most: more than this is for someone who knows the disk."""
IMAGE_CPU_S = 10e-6
"""CPU time to copy, checksum and hand over one image; calibrated with full_page_writes off."""
# Compressed to this part of the size, at this CPU time per image. wal_compression takes "on", which
# is pglz, up to version 14, and a method from 15 on.
_METHODS = {"lz4": (0.45, 12e-6), "zstd": (0.35, 30e-6), "pglz": (0.4, 80e-6)}
_GB = 1 << 30


class _Pace(Struct, frozen=True):
    """WAL generation: per second, per record, and until the next checkpoint."""

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
        """True if many records contain a full-page image."""
        return self.images_per_record >= IMAGES_PER_RECORD

    @property
    def high_image_share(self) -> bool:
        """True if full-page images are a large part of the bytes."""
        return self.image_share >= IMAGE_BYTES_SHARE

    @property
    def heavy_images(self) -> bool:
        return (self.many_images or self.high_image_share) and self.bytes_s >= WAL_BYTES_S_MIN

    @property
    def frequent(self) -> bool:
        return self.interval_s is not None and self.interval_s < FREQUENT_S

    @property
    def by_size(self) -> bool:
        """True if max_wal_size triggers the next checkpoint soon."""
        latest = min(INTERVAL_S, self.timeout_s or INTERVAL_S)
        return self.interval_s is not None and self.interval_s < latest

    @property
    def found(self) -> bool:
        return self.heavy_images or self.frequent


@rule(
    "checkpoint-fpi",
    false_positives=(
        "a period that begins right after a checkpoint and ends before most pages were imaged"
        " shows more images than the mean over a checkpoint cycle; a bulk load changes each page"
        " once, whatever the checkpoints do"
    ),
)
def checkpoint_fpi(s: Situation) -> Found | Cleared:
    """Checkpoints too frequent, and the storm of full-page images that follows each.

    The first change of a page after a checkpoint writes the whole page into the WAL. Two triggers:

    - images: at least ``IMAGES_PER_RECORD`` of the WAL records carry one (db-triage's bar, wal_fpi
      / wal_records), or images are at least ``IMAGE_BYTES_SHARE`` of the WAL's bytes (calibrated by
      injection: right after a checkpoint, and long after one), at ``WAL_BYTES_S_MIN`` of WAL or
      more;
    - distance: at this rate of WAL, max_wal_size brings the next checkpoint within ``FREQUENT_S``,
      images or not: the default of checkpoint_warning, below which PostgreSQL suggests to raise
      max_wal_size (runtime-config-wal.html#GUC-CHECKPOINT-WARNING in its manual). The distance is
      max_wal_size / (1 + checkpoint_completion_target), as PostgreSQL computes it.

    A larger distance is proposed where max_wal_size brings the checkpoints, before
    checkpoint_timeout and within ``INTERVAL_S`` (pg_gather calls under 10 minutes too frequent).

    A period shorter than a checkpoint cycle sees either the storm or the calm, not their mean, so
    the distance is worked out from the rate instead of counted.
    """
    pace = _pace(s)
    _skip_after_own_checkpoint(s, pace)
    evidence = _checkpoint_fpi_evidence(s, pace)
    if not _load_writes(s):
        return Cleared("the load writes no rows", evidence)
    if not pace.found:
        every = (
            ""
            if pace.interval_s is None
            else f"; max_wal_size would bring a checkpoint every {duration(pace.interval_s)}"
        )
        return Cleared(
            f"full-page images are {percent(pace.image_share)} of the WAL{every}", evidence
        )
    without = _ratio(s, pace, keep=0.0)
    return Found(
        sentence=_sentence(pace),
        parts=("images",),
        removable_share=without.lifted,
        confidence=0.8 if pace.heavy_images and pace.by_size else 0.6,
        evidence=evidence,
        proposals=_proposals(s, pace, without),
    )


def _skip_after_own_checkpoint(s: Situation, pace: _Pace) -> None:
    """Raise Skip if a checkpoint by pgdyno, less than a cycle before, made the images."""
    began, ended = s.window_ms
    cycle_ms = 1000 * (pace.cycle_s or 0.0)
    checkpoints = [each for each in own_events(s.run) if each.detail.get("debt") == "checkpoint"]
    if overlaps_own(checkpoints, began - cycle_ms, ended):
        raise Skip("the images follow checkpoints by pgdyno, at the edges of slices")


def _load_writes(s: Situation) -> bool:
    """True if rows are written in the database under load, or the number is not recorded."""
    counts = [
        s.run.delta("metric_database", column, s.slice_ids)
        for column in ("tup_inserted", "tup_updated", "tup_deleted")
    ]
    known = [count for count in counts if count is not None]
    done = s.throughput_tps * s.seconds
    return not known or sum(known) >= ROWS_WRITTEN_MIN * done


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
        return f"{images}, {size(pace.bytes_s)}/s"
    every = duration(pace.interval_s)
    return f"{images}; at this rate max_wal_size brings a checkpoint every {every}"


def _checkpoint_fpi_evidence(s: Situation, pace: _Pace) -> list[Evidence]:
    """Return the evidence; a finding has the thresholds that it met, a cleared one all of them."""

    def bar(met: bool, threshold: str) -> str | None:
        return threshold if met or not pace.found else None

    evidence = [
        s.evidence(
            "WAL written", pace.bytes_s, "bytes/s", bar(pace.heavy_images, "at least 1 MB/s")
        ),
        s.evidence(
            "full-page images / WAL bytes" + (" (estimate)" if s.wal.image_bytes is None else ""),
            pace.image_share,
            "share",
            bar(
                pace.heavy_images and pace.high_image_share,
                f"at least {percent(IMAGE_BYTES_SHARE)}",
            ),
        ),
        s.evidence(
            "full-page images / WAL records",
            pace.images_per_record,
            "share",
            bar(pace.heavy_images and pace.many_images, f"at least {percent(IMAGES_PER_RECORD)}"),
        ),
        s.evidence(
            "full-page images per transaction",
            pace.images / (s.throughput_tps * s.seconds),
            "images",
        ),
        s.evidence("part of a flush that the images take (estimate)", _of_flush(s), "share"),
    ]
    if pace.interval_s is not None:
        evidence.append(
            s.evidence(
                "time to the next checkpoint at this rate",
                pace.interval_s,
                "s",
                bar(pace.frequent, f"less than {duration(FREQUENT_S)}"),
            )
        )
    done = len(_checkpoints(s))
    return [*evidence, s.evidence("checkpoints seen", done, "count")]


def _checkpoints(s: Situation) -> list[str]:
    began, ended = s.window_ms
    return [
        event.label
        for event in s.run.events("checkpoint")
        if event.at_ms <= ended and event.at_ms + (event.duration_ms or 0.0) >= began
    ]


def _of_flush(s: Situation) -> float:
    return image_part_of_flush(s) * (1.0 - delay_part_of_flush(s))


def _ratio(s: Situation, pace: _Pace, *, keep: float, extra_cpu_s: float = 0.0) -> Prediction:
    """Predicted ratio with ``keep`` of the images' bytes left and ``extra_cpu_s`` spent on each."""
    each = pace.images / (s.throughput_tps * s.seconds)
    saved_s = IMAGE_CPU_S * (1.0 - keep) - extra_cpu_s
    cpu = max(0.5, 1.0 - each * saved_s / s.loop.cpu_s) if s.loop.cpu_s > 0 else 1.0
    return s.loop.ratio_of_shorter_flushes(1.0 - _of_flush(s) * (1.0 - keep), cpu=cpu)


def _proposals(s: Situation, pace: _Pace, without: float) -> list[Proposal]:
    proposals = []
    if s.settings.is_on("full_page_writes") is not False:
        proposals.append(
            Proposal(
                remedy_id="full-page-writes-off",
                change=Change(settings={"full_page_writes": "off"}),
                predicted_ratio=without,
                why="the WAL would carry changes only",
                cycle_s=pace.cycle_s,
                specific=True,
            )
        )
    proposals += _distance(s, pace) + _compression(s, pace)
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]


def _distance(s: Situation, pace: _Pace) -> list[Proposal]:
    """max_wal_size for a checkpoint every 15 minutes at this rate, and that as the timeout.

    Images come once per page and checkpoint, so with checkpoints k times rarer at most k times
    fewer remain; a tenth is taken as the least, for pages that are changed rarely.
    """
    now = s.settings.size_bytes("max_wal_size")
    if not pace.by_size or now is None:
        return []
    wanted = 2 * WANTED_INTERVAL_S * pace.bytes_s
    size_gb = 2
    while size_gb * _GB < wanted and size_gb < WAL_GB_MAX:
        size_gb *= 2
    if size_gb * _GB <= now:
        return []
    rarer = size_gb * _GB / now
    timeout_s = max(WANTED_INTERVAL_S, pace.timeout_s or 0.0)
    return [
        Proposal(
            remedy_id="checkpoint-distance",
            change=Change(
                settings={
                    "max_wal_size": f"{size_gb}GB",
                    "checkpoint_timeout": f"{timeout_s / 60:.0f}min",
                }
            ),
            predicted_ratio=_ratio(s, pace, keep=max(0.1, 1.0 / rarer)),
            why=f"checkpoints up to {figure(rarer)} times rarer, so most pages are imaged less"
            " often",
            cycle_s=pace.cycle_s,
            specific=True,
        )
    ]


def _compression(s: Situation, pace: _Pace) -> list[Proposal]:
    if not pace.heavy_images or s.settings.is_on("wal_compression") is not False:
        return []
    method = next((name for name in ("lz4", "zstd") if s.can(name)), "pglz")
    value = method if s.server_version_num >= 150000 else "on"
    keep, extra_cpu_s = _METHODS["pglz" if value == "on" else method]
    return [
        Proposal(
            remedy_id="wal-compression",
            change=Change(settings={"wal_compression": value}),
            predicted_ratio=_ratio(s, pace, keep=keep, extra_cpu_s=extra_cpu_s),
            why=f"images would take about {percent(keep)} of their bytes",
            cycle_s=pace.cycle_s,
            specific=True,
        )
    ]


DIP_SHARE = 0.5
LOST_SHARE = 0.02
CHECKPOINT_DIPS_MOST = 0.6
SAVED = 0.5
"""Part of the loss that spreading the writes is trusted to save."""
_TARGET = "checkpoint_completion_target"
_SHOWN = 5


@rule(
    "checkpoint-dips",
    false_positives=(
        "a machine that does other work at the same moments; checkpoints that last most of the"
        " run, with which any dip coincides"
    ),
)
def checkpoint_dips(s: Situation) -> Found | Cleared:
    """Checkpoint dips: the throughput falls during checkpoints, without stopping.

    Trigger: intervals below ``DIP_SHARE`` of the median throughput, but above the ``DROP_SHARE`` at
    which a stall begins, that overlap a checkpoint; together they lose at least ``LOST_SHARE``, and
    at least ``CHECKPOINT_DIPS_MOST`` of what such dips lose is lost while a checkpoint runs.

    Thresholds: calibrated by injection, checkpoints on a disk that writes 16 MB/s, against bursts
    of arrivals and loads of few transactions, whose dips do not follow checkpoints.
    """
    drops = find_drops(s, below=DIP_SHARE)
    shallow = [d for d in drops.all if d.done_tps >= DROP_SHARE * drops.median_tps]
    dips = [d for d in shallow if d.in_checkpoint]
    lost = _lost(dips, drops)
    evidence = _checkpoint_dips_evidence(s, dips, lost)
    if lost < LOST_SHARE or lost < CHECKPOINT_DIPS_MOST * _lost(shallow, drops):
        return Cleared("throughput does not follow the checkpoints", evidence)
    lowest = min(dip.done_tps for dip in dips)
    return Found(
        sentence=(
            f"throughput falls to {percent(lowest / drops.median_tps)} of its median while a"
            f" checkpoint runs, {duration(sum(d.duration_ms for d in dips) / 1000)} in all"
        ),
        share=lost,
        removable_share=1.0,
        momentary=True,
        confidence=0.6,
        evidence=evidence,
        causes=("checkpoint-fpi",),
        proposals=_spread(s, lost),
        advice="" if _spread(s, lost) else "fewer checkpoints, or a disk that writes faster",
    )


def _lost(dips: list[ThroughputDrop], drops: Drops) -> float:
    return sum(dip.lost for dip in dips) / drops.expected if drops.expected else 0.0


def _spread(s: Situation, lost: float) -> list[Proposal]:
    target = s.settings.number(_TARGET)
    if target is None or target >= float(DEFAULTS[_TARGET]):
        return []
    ratio = 1.0 / (1.0 - min(0.9, SAVED * lost))
    change = Change(settings={_TARGET: DEFAULTS[_TARGET]})
    why = "a checkpoint's writes would be spread over most of the time to the next"
    return [
        Proposal(
            remedy_id="checkpoint-spread",
            change=change,
            predicted_ratio=ratio,
            why=why,
            specific=True,
        )
    ]


def _checkpoint_dips_evidence(
    s: Situation, dips: list[ThroughputDrop], lost: float
) -> list[Evidence]:
    bar = f"at least {percent(LOST_SHARE)}"
    shown = sorted(dips, key=lambda dip: -dip.lost)[:_SHOWN]
    return [
        s.evidence("throughput lost in dips during checkpoints", lost, "share", bar),
        s.evidence("dips during checkpoints", len(dips), "count"),
        *(dip.evidence("dip") for dip in shown),
    ]


@rule(
    "full-pages",
    false_positives=(
        "a table that was just loaded, whose pages get free space by their first updates; columns"
        " set by triggers or by functions, whose statements are not seen"
    ),
)
def full_pages(s: Situation) -> Found | Cleared:
    """Full pages: updates find no space on the row's page, so that they are not HOT.

    Trigger: at most ``HOT_SHARE`` of a table's updates are HOT, not because of an indexed column
    (see ``facts.tables``), and their entries into indexes are estimated to take at least
    ``COST_SHARE`` of the response time.

    Threshold: pg_gather proposes a fillfactor for any table with updates that are not HOT; the cost
    is calibrated by injection, see ``_cpu_uses``. The value proposed is pg_gather's: 100 - 20 U /
    (U + I) + 20 H / (U + I), with U updates, I inserts and H HOT updates.
    """
    missed = [each for each in missed_updates(s) if each.finding == "full-pages"]
    share = response_share(s, "full-pages")
    evidence = hot_evidence(s, missed, share)
    if not missed or share < COST_SHARE:
        return Cleared(
            f"updates that found no space on their page take {percent(share)} of the time", evidence
        )
    worst = missed[0]
    unknown = worst.reason == "unknown"
    why = (
        "whether because their page had no space or because of an indexed column is not known"
        if unknown
        else "as their page is full"
    )
    return Found(
        sentence=missed_words(worst, why),
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        gain=ratio_without(s, cpu_uses(s)["full-pages"]),
        confidence=0.5 if unknown else 0.8,
        evidence=evidence,
        proposals=[] if unknown else _fillfactor(s, missed),
        advice=_ADVICE if unknown else "",
    )


_ADVICE = (
    "compare the columns that the updates set with those of the table's indexes; if none of them is"
    " indexed, lower the table's fillfactor"
)


def _fillfactor(s: Situation, missed: list[Missed]) -> list[Proposal]:
    proposals = []
    entries = sum(each.entries_per_s for each in missed)
    for each in missed:
        table = each.table
        rows = table.updated + table.inserted
        value = round(100 - 20 * table.updated / rows + 20 * table.hot / rows)
        part = cpu_uses(s)["full-pages"] * each.entries_per_s / entries
        change = Change(table_options={table.name: {"fillfactor": str(value)}})
        why = f"{figure(each.missed)} updates per second would stay on their page"
        # Only pages that are rewritten get space.
        ratio = ratio_without(s, MOST * part)
        proposals.append(
            Proposal(
                remedy_id="fillfactor", change=change, predicted_ratio=ratio, why=why, specific=True
            )
        )
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]
