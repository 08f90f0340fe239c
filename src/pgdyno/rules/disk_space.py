"""Disks that fill."""

from __future__ import annotations

import math

from msgspec import Struct

from pgdyno.facts.kept_wal import HORIZON_S
from pgdyno.facts.sight import Sight, alter_system, measured
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, percent, size
from pgdyno.record.failures import is_answer
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.units import format_size
from pgdyno.stats.filling import (
    Filling,
    Space,
    disk_name,
    forecast,
    full_soon,
    growths,
    steady_growth,
    wal_beyond_disk,
    wal_wanted,
)

GROWTH_HORIZON_S = 1800.0
USED_SHARE = 0.95
OWN_PART = 0.5
"""Part of a disk's growth that the tables' own has to be; the rest may be logs and temporary files
of the server, or tables that are not among those recorded."""
_OFF = frozenset(("off",))
_NEVER = frozenset(("-1",))
_USUAL_LEVELS = frozenset(("notice", "warning", "error", "log", "fatal", "panic"))
_LOGGING = {
    **dict.fromkeys(("log_duration", "log_connections", "log_disconnections"), _OFF | {""}),
    **dict.fromkeys((f"log_{each}_stats" for each in ("parser", "planner", "executor")), _OFF),
    **dict.fromkeys(("log_statement_stats", "log_replication_commands", "log_lock_waits"), _OFF),
    **dict.fromkeys(("debug_print_parse", "debug_print_raw_parse"), _OFF),
    **dict.fromkeys(("debug_print_rewritten", "debug_print_plan"), _OFF),
    **dict.fromkeys(("log_min_duration_statement", "log_min_duration_sample"), _NEVER),
    **dict.fromkeys(("log_temp_files", "auto_explain.log_min_duration"), _NEVER),
    "log_transaction_sample_rate": frozenset(("0",)),
    "log_statement": frozenset(("none",)),
    "log_min_messages": _USUAL_LEVELS,
}
"""Settings that write into the log for each statement, transaction or session, with the values for
which they do not."""
_SEGMENT_BYTES = 16 << 20
_WAL_PART = 0.7
"""Proposed max_wal_size as a share of the space for WAL."""


class _Disk(Struct, frozen=True):
    """A file system, with the predicted time at which it is full."""

    name: str
    space: Space
    filling: Filling | None
    tables_bytes_s: float | None
    """Growth of the recorded tables; None if unknown, or if they are on another disk."""
    log_bytes_s: float
    """Growth of the server's log; 0 if it is on another disk, or cannot be seen."""

    @property
    def grows(self) -> bool:
        return self.filling is not None and self.filling.why == "growth"

    @property
    def log_fills(self) -> bool:
        """True if what grows is most of all the server's log."""
        return self.grows and self.log_bytes_s >= OWN_PART * self.space.data_growth_bytes_s

    @property
    def others_fill(self) -> bool:
        """True if what grows is not the server's."""
        if not self.grows or self.tables_bytes_s is None:
            return False
        return self.tables_bytes_s + self.log_bytes_s < OWN_PART * self.space.data_growth_bytes_s

    @property
    def used_share(self) -> float:
        return 1.0 - self.space.free_bytes / self.space.size_bytes

    @property
    def wal_space_bytes(self) -> float:
        return self.space.free_bytes + (self.space.wal_dir_bytes or 0.0)

    @property
    def full_soon(self) -> bool:
        if self.filling is None or self.filling.seconds >= HORIZON_S:
            return False
        soon = self.filling.seconds < GROWTH_HORIZON_S or self.used_share > USED_SHARE
        return self.filling.why != "growth" or soon


@rule(
    "disk-filling",
    false_positives=(
        "a load that fills tables only at its beginning; other programs that write to the same"
        " file system, where the sizes of the tables were not recorded; a file system that is made"
        " larger when it is needed"
    ),
)
def disk_filling(s: Situation) -> Found | Cleared:
    """A disk about to be full: of WAL, which ends the server with a PANIC, or of data.

    Triggers, computed by ``pgdyno.stats.filling``:

    - the WAL's disk has less space than the WAL may need by ``max_wal_size`` (or by the WAL written
      between two timed checkpoints, if that is less), and WAL is being written;
    - the WAL has grown beyond ``max_wal_size`` and keeps growing: something keeps it;
    - the data grows steadily, and the disk is full within ``GROWTH_HORIZON_S``, because a test is
      short compared with production, or it is fuller than ``USED_SHARE``.

    None of them counts if the disk is full only after ``HORIZON_S``, the day of ``facts.kept_wal``.
    Where the server's log is at least ``OWN_PART`` of the growth, the log fills it, and the
    settings that write it for each statement or session are named. Where the tables and the log
    grow by less than that together, others fill it: that says nothing of the load, so it is a minor
    finding.

    Thresholds: the WAL's margin is an eighth of ``max_wal_size`` and two segments, as that is a
    soft limit; most monitoring calls a disk critical at 95 %. A steady server recycles its WAL
    segments, so its disk may be 90 % full permanently.
    """
    disks = _disks(s)
    evidence = [item for disk in disks for item in _evidence(s, disk)]
    filling = [disk for disk in disks if disk.full_soon]
    if not filling:
        return Cleared(_cleared(disks), evidence)
    first = min(filling, key=lambda disk: (disk.others_fill, _left_s(disk)))
    return Found(
        sentence=_sentence(s, first),
        removable_share=0.0,
        severity=None if first.others_fill else "will fail",
        confidence=0.8,
        evidence=evidence,
        causes=("slot-holds-wal", "archiver-behind"),
        proposals=_proposals(first),
        advice=_log_advice(s) if first.log_fills else "",
    )


def _left_s(disk: _Disk) -> float:
    return math.inf if disk.filling is None else disk.filling.seconds


def _cleared(disks: list[_Disk]) -> str:
    first = min(disks, key=lambda disk: (_left_s(disk), -disk.used_share))
    full = f"{first.name} is {percent(first.used_share)} full"
    if first.filling is None:
        return f"{full}, and no growth that would fill it was measured"
    return f"{full}, and at this rate it has room for {duration(first.filling.seconds)}"


def _disks(s: Situation) -> list[_Disk]:
    series = s.run.series("metric_space", s.slice_ids)
    names = sorted({str(holds) for holds in series["holds"]})
    if not names:
        raise Skip("the space on the server's disks was not recorded")
    return [_disk(s, holds) for holds in names]


def _disk(s: Situation, holds: str) -> _Disk:
    rows = s.run.series("metric_space", s.slice_ids, where={"holds": holds})
    times_s = [at_ms / 1000 for at_ms in rows["at_ms"]]
    used = [
        float(size - free)
        for size, free in zip(rows["size_bytes"], rows["free_bytes"], strict=True)
    ]
    wal = [float(each) for each in rows["wal_dir_bytes"] if each == each]
    has_wal = len(wal) == len(used)
    wal_bytes_s, wanted = _wal_pace(s) if has_wal else (0.0, None)
    data_growth, wal_growth = growths(times_s, used, wal if has_wal else None)
    space = Space(
        size_bytes=float(rows["size_bytes"][-1]),
        free_bytes=float(rows["free_bytes"][-1]),
        data_growth_bytes_s=data_growth,
        wal_dir_bytes=wal[-1] if has_wal else None,
        wal_growth_bytes_s=wal_growth,
        wal_bytes_s=wal_bytes_s,
        wal_wanted_bytes=wanted,
    )
    filling = forecast(space, s.settings.size_bytes("max_wal_size"))
    tables_bytes_s = _tables_growth(s) if "data" in holds.split(",") else None
    log = [float(each) for each in rows["log_bytes"] if each == each]
    return _Disk(
        disk_name(holds, str(rows["filesystem"][-1])),
        space,
        filling,
        tables_bytes_s,
        log_bytes_s=steady_growth(times_s, log) if len(log) == len(used) else 0.0,
    )


def _tables_growth(s: Situation) -> float | None:
    """Return the bytes per second by which the recorded tables grew; None if that is unknown."""
    rows = s.run.series("metric_table", s.slice_ids)
    known = rows["size_bytes"] == rows["size_bytes"]  # without NaN, which stands for NULL
    if not known.any():
        return None
    names, at_ms, sizes = (rows[name][known] for name in ("relation", "at_ms", "size_bytes"))
    seconds = float(at_ms.max() - at_ms.min()) / 1000
    if seconds <= 0:
        return None
    grown = (sizes[names == name] for name in set(names))
    return sum(float(each[-1] - each[0]) for each in grown) / seconds


def _wal_pace(s: Situation) -> tuple[float, float | None]:
    """Return the WAL rate and the maximum space for WAL, in bytes; None if unknown."""
    try:
        bytes_s = s.wal.bytes / s.seconds
    except Skip:
        return 0.0, None
    size = s.settings.size_bytes("max_wal_size")
    timeout_ms = s.settings.duration_ms("checkpoint_timeout")
    if size is None:
        return bytes_s, None
    return bytes_s, wal_wanted(
        size,
        bytes_s=bytes_s,
        timeout_s=None if timeout_ms is None else timeout_ms / 1000,
        completion_target=s.settings.number("checkpoint_completion_target"),
    )


def _sentence(s: Situation, disk: _Disk) -> str:
    assert disk.filling is not None
    full = full_soon(disk.name, disk.filling.seconds)
    match disk.filling.why:
        case "max_wal_size":
            cause = wal_beyond_disk(disk.wal_space_bytes, str(s.settings.text("max_wal_size")))
            return f"{full}, and the server ends with a PANIC: {cause}"
        case "kept":
            return (
                f"{full}, and the server ends with a PANIC: the WAL has grown to"
                f" {size(disk.space.wal_dir_bytes or 0.0)}, beyond max_wal_size, so something keeps"
                " it: a replication slot, an archiver that fails, or wal_keep_size"
            )
        case "growth":
            growth = f"{size(disk.space.data_growth_bytes_s)}/s"
            grows = f"{full}: it is {percent(disk.used_share)} full and grows by {growth}"
            if disk.log_fills:
                return (
                    f"{grows}, of which the server's log is"
                    f" {size(disk.log_bytes_s)}/s{_log_words(s)}"
                )
            if disk.others_fill:
                return (
                    f"{grows}, of which the load's tables are"
                    f" {size(max(0.0, disk.tables_bytes_s or 0.0))}/s: others fill it"
                )
            return grows


def _log_words(s: Situation) -> str:
    """Return what makes the server write so much into its log, as far as that is known."""
    found = [f"{name} = {value}" for name, value in _log_settings(s).items()]
    failed = sum(e.count for e in s.run.errors(s.slice_ids) if is_answer(e.sqlstate))
    if failed:
        found.append(f"{counted(failed, 'error', 'errors')} of the load's statements")
    return f" ({', '.join(found)})" if found else ""


def _log_settings(s: Situation) -> dict[str, str]:
    """Return the settings in force that write into the log for each statement or session."""
    return {
        name: value
        for name, value in s.settings.values.items()
        if name in _LOGGING and value.lower() not in _LOGGING[name]
    }


def _log_advice(s: Situation) -> str:
    names = ", ".join(_log_settings(s))
    less = f"reset {names}, or log a part of it" if names else "find out what the log repeats"
    return (
        f"{less} (log_min_duration_sample with log_statement_sample_rate); rotate the log and"
        " remove old files (log_rotation_size, log_truncate_on_rotation, logrotate); on a file"
        " system of its own a log that fills it does not stop the server"
    )


def _evidence(s: Situation, disk: _Disk) -> list[Evidence]:
    space = disk.space
    growth = space.data_growth_bytes_s + space.wal_growth_bytes_s
    evidence = [
        s.evidence(f"{disk.name}, used", disk.used_share, "share", f"over {percent(USED_SHARE)}"),
        s.evidence(f"{disk.name}, free", space.free_bytes, "bytes"),
        s.evidence(f"{disk.name}, growth", growth, "bytes/s"),
    ]
    if disk.tables_bytes_s is not None:
        bar = f"others fill it below {percent(OWN_PART)} of the growth"
        evidence.append(s.evidence("the tables' growth", disk.tables_bytes_s, "bytes/s", bar))
    if disk.log_bytes_s:
        bar = f"it fills the disk from {percent(OWN_PART)} of the growth on"
        evidence.append(s.evidence("the log's growth", disk.log_bytes_s, "bytes/s", bar))
    if disk.filling is not None:
        evidence.append(
            s.evidence(
                f"{disk.name}, full at this rate in",
                disk.filling.seconds,
                "s",
                f"within {duration(GROWTH_HORIZON_S)}",
            )
        )
    if space.wal_dir_bytes is not None:
        evidence.append(s.evidence("WAL on it", space.wal_dir_bytes, "bytes"))
        evidence.append(s.evidence("WAL written", space.wal_bytes_s, "bytes/s"))
    if space.wal_wanted_bytes is not None:
        evidence.append(
            s.evidence(
                "space that the WAL may need",
                space.wal_wanted_bytes,
                "bytes",
                f"more than the {size(disk.wal_space_bytes)} available",
            )
        )
    return evidence


def _proposals(disk: _Disk) -> list[Proposal]:
    """Return a smaller max_wal_size if that is the cause; it makes nothing faster."""
    if disk.filling is None or disk.filling.why != "max_wal_size":
        return []
    segments = max(2, int(disk.wal_space_bytes * _WAL_PART / _SEGMENT_BYTES))
    return [
        Proposal(
            remedy_id="wal-within-disk",
            change=Change(settings={"max_wal_size": format_size(segments * _SEGMENT_BYTES)}),
            predicted_ratio=1.0,
            why="a checkpoint would remove WAL before the disk is full",
        )
    ]


@rule(
    "wal-disk-small",
    looks=("setting", "disk_space"),
    covered_by=("disk-filling",),
    false_positives="a load that writes so little that checkpoints come by time",
)
def wal_disk_small(sight: Sight) -> Found | Cleared:
    """The disk of the WAL has no room for max_wal_size.

    Trigger: max_wal_size is more than the space that is free on the disk of the WAL plus what the
    WAL takes already. Threshold: none; the server may use all of max_wal_size between two
    checkpoints, and stops when the disk is full. It is no hard limit: WAL may grow beyond it.
    """
    disk = next((row for row in sight.rows("disk_space") if "wal" in row["holds"].split(",")), None)
    if disk is None or disk["wal_dir_bytes"] is None:
        raise Skip("the WAL's directory is not accessible")
    wanted = sight.setting("max_wal_size").bytes
    room = float(disk["free_bytes"] + disk["wal_dir_bytes"])
    evidence = [
        measured("max_wal_size", wanted, "bytes", "more than the space for it"),
        measured("free on the disk of the WAL", disk["free_bytes"], "bytes"),
        measured("size of the WAL", disk["wal_dir_bytes"], "bytes"),
    ]
    if wanted <= room:
        return Cleared("the disk of the WAL has room for max_wal_size", evidence)
    return Found(
        sentence=(
            f"max_wal_size is {size(wanted)}, and the disk of the WAL has room for {size(room)}:"
            " the"
            " server stops if it uses all of it"
        ),
        severity="costs",
        confidence=0.8,
        evidence=evidence,
        advice="free space on the disk of the WAL, or move the WAL to a larger one",
        commands=alter_system({"max_wal_size": f"'{max(64, int(room / 2) >> 20)}MB'"}),
    )
