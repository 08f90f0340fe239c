"""Sorts and hashes that do not fit into memory."""

from __future__ import annotations

from pgdyno.facts.plans import (
    TimedChange,
    is_of_spilling,
    owned_share,
    timed_settings,
    was_looked_at,
    work_parts,
)
from pgdyno.facts.sight import Sight, measured, proposed
from pgdyno.facts.situation import Situation
from pgdyno.numbers import duration, figure, percent, size
from pgdyno.plans.tree import IN_MEMORY
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._cpu_uses import ratio_of_own_work
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules._timed_changes import (
    is_costly,
    proposals_of,
    ratio_with,
    refuse_if_undecided,
    saved_evidence,
    settings_title,
    time_evidence,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import ActiveSettings
from pgdyno.spec.sql_text import literal, shortened
from pgdyno.stats.prediction import Prediction, between

WAITING_SHARE = 0.05
MEMORY_SHARE_MAX = 0.25
"""Most of the machine's memory that work_mem of all sessions may take."""
WORK_MEM_DEFAULT_KB = 4096


@rule(
    "temp-files",
    false_positives="cursors WITH HOLD and other results that are kept in files by intention",
)
def temp_files(s: Situation) -> Found | Cleared:
    """Temporary files: sorts, hashes and other work that does not fit in work_mem.

    Trigger: sessions wait for at least ``WAITING_SHARE`` of the response time for temporary files
    (IO:BufFileRead, BufFileWrite). Temporary files that cost no waits are evidence only: the
    kernel's cache may take them at the price of a copy.

    Threshold: calibrated by injection, sorts with work_mem of 64 kB on delayed files. The work_mem
    proposed holds the mean temporary file (``temp_bytes / temp_files`` of pg_stat_database) times
    ``IN_MEMORY``, since a row takes more in memory than in a file.

    On a server that pgdyno started, a work_mem that holds the most that a node of a plan wrote to
    disk is tried beside the load. It decides: found if it saves ``WAITING_SHARE`` of the response
    time, and proposed only then.
    """
    share = s.budget.own_share("temp")
    each_bytes, per_s = _files(s)
    tried = _tried(s)
    evidence = [*_evidence(s, share, each_bytes, per_s), *_tried_evidence(s, tried)]
    if tried is not None and is_costly(s, tried, WAITING_SHARE):
        return _timed(s, tried, evidence)
    if share < WAITING_SHARE:
        if tried is not None:
            refuse_if_undecided(tried, settings_title(tried))
        return Cleared(
            f"{percent(share)} of {s.budget.own_title} is spent on temporary files",
            evidence,
            parts=("temp",),
        )
    proposals = _temp_files_work_mem(s, each_bytes) if tried is None else []
    each = f", {size(each_bytes)} each" if each_bytes else ""
    return Found(
        sentence=(
            f"{percent(share)} of {s.budget.own_title} is spent on temporary files:"
            f" {figure(per_s)} are written per second{each}"
        ),
        parts=("temp",),
        removable_share=s.loop.ratio(data=_without(s)).lifted,
        confidence=0.9,
        evidence=evidence,
        proposals=proposals,
        advice="" if proposals else "sort or hash less per statement; work_mem does not help",
    )


def _tried(s: Situation) -> TimedChange | None:
    """Return the trial of a work_mem that holds what was written to disk; None without one."""
    if not was_looked_at(s):
        return None
    return next((each for each in timed_settings(s) if is_of_spilling(s, each)), None)


def _tried_evidence(s: Situation, tried: TimedChange | None) -> list[Evidence]:
    if tried is None:
        return []
    title = settings_title(tried)
    return [
        saved_evidence(s, tried, title, WAITING_SHARE),
        *time_evidence(s, tried.statements[:1], f"with {title}"),
    ]


def _timed(s: Situation, tried: TimedChange, evidence: list[Evidence]) -> Found:
    worst, wanted = tried.statements[0], tried.change.settings["work_mem"]
    fits = _fits(s, ActiveSettings(tried.change.settings).size_bytes("work_mem") or 0)
    proposals = proposals_of(
        s, [tried], "work-mem", "sorts, hashes and kept rows of statements would stay in memory"
    )
    return Found(
        sentence=(
            f"sorts, hashes or kept rows do not fit in work_mem: a statement takes"
            f" {figure(worst.ms)} ms, and {figure(worst.changed_ms)} ms with {wanted}:"
            f" {shortened(worst.total.statement)}"
        ),
        parts=("temp", *(part for part in work_parts(s) if part != "temp")),
        share=max(s.budget.share("temp"), owned_share(s, tried)),
        removable_share=ratio_with(s, tried).lifted,
        confidence=0.95,
        evidence=evidence,
        proposals=proposals if fits else [],
        advice=""
        if fits
        else f"work_mem = {wanted} for all sessions is more memory than there is:"
        " set it for this statement alone, or sort and hash less",
    )


def _files(s: Situation) -> tuple[float, float]:
    """Return the mean size of a temporary file in bytes, 0 if unknown, and files per second."""
    files, size = (
        s.run.delta("metric_database", column, s.slice_ids) or 0.0
        for column in ("temp_files", "temp_bytes")
    )
    return (size / files if files else 0.0), files / s.seconds


def _without(s: Situation) -> float:
    """Return the part of the waits for data that is left without temporary files."""
    temp, data = s.budget.parts_ms.get("temp", 0.0) / 1000, s.loop.data_s
    return max(0.0, 1.0 - temp / data) if data > 0 else 1.0


def _fits(s: Situation, bytes_each: float) -> bool:
    """Return whether the machine has that much memory for each session; False if not known."""
    memory = s.run.run.host.get("memory_bytes") or 0
    return bytes_each * max(1, s.sessions_max) <= MEMORY_SHARE_MAX * memory


def _temp_files_work_mem(s: Situation, each_bytes: float) -> list[Proposal]:
    if not each_bytes:
        return []
    now_kb = (s.settings.size_bytes("work_mem") or WORK_MEM_DEFAULT_KB * 1024) / 1024
    wanted_kb = 1024
    while wanted_kb < IN_MEMORY * each_bytes / 1024 or wanted_kb <= now_kb:
        wanted_kb *= 2
    if not _fits(s, wanted_kb * 1024):
        return []
    ratio = _ratio(s)
    if ratio < WORTHWHILE_RATIO:
        return []
    why = f"a temporary file of {size(each_bytes)} would fit in memory"
    change = Change(settings={"work_mem": f"{wanted_kb // 1024}MB"})
    return [
        Proposal(remedy_id="work-mem", change=change, predicted_ratio=ratio, why=why, specific=True)
    ]


def _ratio(s: Situation) -> Prediction:
    """Return the predicted ratio without temporary files."""
    without = _without(s)
    return between(s.loop.ratio(data=without), ratio_of_own_work(s, without))


def _evidence(s: Situation, share: float, each_bytes: float, per_s: float) -> list[Evidence]:
    bar = f"at least {percent(WAITING_SHARE)}"
    return [
        s.evidence("waiting for temporary files / response time", share, "share", bar),
        s.evidence("temporary files", per_s, "per s"),
        s.evidence("size of a temporary file", each_bytes or None, "bytes"),
        s.evidence("bytes in temporary files", each_bytes * per_s / s.throughput_tps, "bytes"),
        s.evidence("work_mem", s.settings.text("work_mem"), ""),
    ]


BYTES_S_MIN = 1 << 20
COUNTED_S_MIN = 3600.0
WORK_MEM_BYTES_MAX = 256 << 20


@rule(
    "temp-files-total",
    looks=("server", "setting", "database"),
    covered_by=("temp-files",),
    false_positives="reports or index builds at night that nobody waits for",
)
def temp_files_total(sight: Sight) -> Found | Cleared:
    """Sorts and hashes that do not fit in work_mem, over the time of the statistics.

    Trigger: the database has written at least ``BYTES_S_MIN`` to temporary files on average since
    the statistics began, at least ``COUNTED_S_MIN`` ago. Threshold: ours; a megabyte a second, all
    day, is 86 GB a day of writes and reads that memory would save.
    """
    row = next((row for row in sight.rows("database") if row["current"]), None)
    counted_s = sight.row("server")["counters_s"]
    if row is None or counted_s is None or counted_s < COUNTED_S_MIN:
        raise Skip("the statistics are too young, or their age is not known")
    per_s, files = row["temp_bytes"] / counted_s, max(row["temp_files"], 1)
    mean = row["temp_bytes"] / files
    evidence = [
        measured("temporary files", per_s, "bytes/s", f"at least {size(BYTES_S_MIN)}/s"),
        measured("mean size of a temporary file", mean, "bytes"),
        measured("work_mem", sight.setting("work_mem").bytes, "bytes"),
    ]
    if per_s < BYTES_S_MIN:
        return Cleared("little is written to temporary files", evidence)
    value = f"{_temp_files_total_work_mem(mean)}MB"
    return Found(
        sentence=(
            f"temporary files got {size(per_s)}/s on average over {duration(counted_s)}, in"
            f" {figure(files)} files of {size(mean)}: work_mem is"
            f" {size(sight.setting('work_mem').bytes)}"
        ),
        severity="costs",
        confidence=0.5,
        evidence=evidence,
        advice="set log_temp_files to see which statements; raise work_mem for their role only",
        commands=[f"ALTER ROLE … SET work_mem = {literal(value)}"],
        proposals=[proposed("work-mem", "sorts and hashes in memory", {"work_mem": value})],
    )


def _temp_files_total_work_mem(mean_bytes: float) -> int:
    """Return the power of two in MB that holds a mean file, within bounds."""
    wanted = min(WORK_MEM_BYTES_MAX, 2 * mean_bytes) / (1 << 20)
    return 1 << max(3, int(wanted).bit_length())
