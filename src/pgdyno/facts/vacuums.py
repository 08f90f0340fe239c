"""Vacuums of a run: each table's state, each vacuum's course, and what the load did meanwhile.

Progress is sampled once a second; a vacuum between two samples is only counted. The effect compares
seconds with a vacuum with seconds without any, in the same run: an association, in which everything
else that happened in these seconds is too. Seconds in which a queue for a lock held the load are
left out: a vacuum takes time from a load that runs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from pgdyno.facts.held_times import held_spans, is_held
from pgdyno.facts.intervals import whole
from pgdyno.json_types import Row
from pgdyno.record import RunFile
from pgdyno.spec.age import failsafe_age, members_room
from pgdyno.stats import CONTRAST_MIN, contrast

ENDED_MS = 2_500
"""A vacuum whose last sample is older than this at the end of the run has ended."""
RATIO_WIDTH_MAX = 10.0
"""Upper end of an interval / lower end, above which a ratio tells nothing."""
Limits = tuple[float, float]
"""Ages of transaction IDs and of multixacts."""
Rows = list[Row]


class VacuumRatios(Struct, frozen=True):
    """Ratios of throughput and p99 with their intervals; None: too few seconds, or too different
    ones."""

    seconds_during: int
    seconds_without: int
    seconds_held: int
    """Left out: a queue for a lock held the load."""
    throughput: tuple[float, float, float] | None
    p99: tuple[float, float, float] | None


class VacuumCourse(Struct, frozen=True):
    """Vacuums of a table of one kind."""

    relation: str
    automatic: bool
    to_prevent_wraparound: bool
    failsafe: bool
    count: int
    phases: tuple[tuple[str, int], ...]
    scanned_share: float | None
    index_passes: int
    memory_share: float | None
    asleep_share: float | None
    pages_per_s: float | None
    left_s: float | None
    effect: VacuumRatios


class TableAtEnd(Struct, frozen=True):
    """A table at the end of the run."""

    relation: str
    live: int
    dead: int
    size_bytes: int | None
    growth: float | None
    xid_age: int | None
    mxid_age: int | None
    toast_xid_age: int | None
    toast_mxid_age: int | None
    vacuums: int
    autovacuums: int

    @property
    def dead_bytes(self) -> int | None:
        """Estimate: the size times the dead rows' share."""
        rows = self.live + self.dead
        if self.size_bytes is None or not rows:
            return None
        return round(self.size_bytes * self.dead / rows)


class VacuumAccount(Struct, frozen=True):
    """Vacuum during a run."""

    states: list[TableAtEnd]
    courses: list[VacuumCourse]
    effect: VacuumRatios
    xid_age: int | None
    mxid_age: int | None
    members: int | None
    """Members of multixacts, at most where the server does not count them."""
    members_share: float | None
    """Part of the room for them; None: not known, or the version has no limit."""


def vacuum_account(run: RunFile, slice_ids: Sequence[int]) -> VacuumAccount | None:
    """Return the account of the vacuums of a run; None if the server was not probed."""
    states = _states(run, slice_ids)
    ages = run.samples("metric_age", slice_ids)
    if not states and not ages:
        return None
    progress = run.samples("metric_vacuum", slice_ids)
    seconds = list(_seconds(run, slice_ids))
    members = _most(run.samples("metric_multixact", slice_ids), "members_max")
    room = members_room(int(run.run.server.get("version_num") or 0))
    return VacuumAccount(
        states=states,
        courses=_courses(run, slice_ids, progress, seconds),
        effect=_effect(seconds, progress, progress),
        xid_age=_most(ages, "xid_age"),
        mxid_age=_most(ages, "mxid_age"),
        members=members,
        members_share=None if members is None or room is None else members / room,
    )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _most(rows: Rows, column: str) -> int | None:
    return _whole(max((row[column] for row in rows if row[column] is not None), default=None))


def _states(run: RunFile, slice_ids: Sequence[int]) -> list[TableAtEnd]:
    """Return each table, the oldest first."""
    tables = _by_relation(run.samples("metric_table", slice_ids))
    upkeep = _by_relation(run.samples("metric_autovacuum", slice_ids))
    states = [_state(name, rows, upkeep.get(name, [])) for name, rows in tables.items()]
    return sorted(states, key=lambda each: (-(each.xid_age or 0), each.relation))


def _by_relation(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for row in rows:
        found.setdefault(str(row["relation"]), []).append(row)
    return found


def _state(name: str, rows: Rows, upkeep: Rows) -> TableAtEnd:
    first, last = rows[0], rows[-1]
    sized = [row for row in rows if row["size_bytes"] is not None]
    rest: Row = upkeep[-1] if upkeep else {}
    return TableAtEnd(
        relation=name,
        live=int(last["n_live_tup"] or 0),
        dead=int(last["n_dead_tup"] or 0),
        size_bytes=_whole(sized[-1]["size_bytes"]) if sized else None,
        growth=_growth(sized),
        xid_age=_whole(last["xid_age"]),
        mxid_age=_whole(rest.get("mxid_age")),
        toast_xid_age=_whole(last["toast_xid_age"]),
        toast_mxid_age=_whole(rest.get("toast_mxid_age")),
        vacuums=int((last["vacuum_count"] or 0) - (first["vacuum_count"] or 0)),
        autovacuums=int((last["autovacuum_count"] or 0) - (first["autovacuum_count"] or 0)),
    )


def _growth(sized: Rows) -> float | None:
    """Return the size per live row at the end over that at the beginning."""
    if len(sized) < 2 or not all(row["n_live_tup"] for row in (sized[0], sized[-1])):
        return None
    before, after = (row["size_bytes"] / row["n_live_tup"] for row in (sized[0], sized[-1]))
    return after / before if before else None


class _Second(Struct, frozen=True):
    """An interval of load."""

    from_ms: float
    to_ms: float
    tps: float
    p99_ms: float
    held: bool
    """True if a queue for a lock held the load."""


def _seconds(run: RunFile, slice_ids: Sequence[int]) -> Iterator[_Second]:
    intervals = whole(run.intervals(slice_ids))
    spans = held_spans(run, slice_ids)
    p99 = {}
    if len(intervals) >= 2 * CONTRAST_MIN:  # There is no effect of fewer.
        latency = run.latency_series("response", (99,), slice_ids=slice_ids, points_max=1_000_000)
        p99 = dict(zip(map(int, latency["at_ms"]), latency["p99"], strict=True))
    for each in intervals:
        tps = each.done * 1000 / each.duration_ms
        ended_ms = each.at_ms + each.duration_ms
        held = is_held(spans, each.at_ms, ended_ms)
        yield _Second(each.at_ms, ended_ms, tps, float(p99.get(each.at_ms, math.nan)), held)


def _effect(seconds: Sequence[_Second], rows: Rows, progress: Rows) -> VacuumRatios:
    """Return the seconds with a vacuum of ``rows`` against those without any of ``progress``."""
    mine, any_ = (sorted(float(row["at_ms"]) for row in each) for each in (rows, progress))
    marked = [(each, _seen(each, mine)) for each in seconds]
    mixed = [(each, during) for each, during in marked if during or not _seen(each, any_)]
    kept = [(each, during) for each, during in mixed if not each.held]
    during = sum(mark for _, mark in kept)
    return VacuumRatios(
        during,
        len(kept) - during,
        len(mixed) - len(kept),
        _ratio([(each.tps, mark) for each, mark in kept]),
        _ratio([(each.p99_ms, mark) for each, mark in kept]),
    )


def _seen(second: _Second, samples: Sequence[float]) -> bool:
    place = bisect_left(samples, second.from_ms)
    return place < len(samples) and samples[place] < second.to_ms


def _ratio(values: Sequence[tuple[float, bool]]) -> tuple[float, float, float] | None:
    known = [(value, mark) for value, mark in values if value == value]
    found = contrast([value for value, _ in known], [mark for _, mark in known])
    if found is None or found.hi > RATIO_WIDTH_MAX * found.lo:
        return None
    return found.ratio, found.lo, found.hi


def _courses(
    run: RunFile, slice_ids: Sequence[int], progress: Rows, seconds: Sequence[_Second]
) -> list[VacuumCourse]:
    """Return the vacuums by table and kind, those seen for the longest time first."""
    kinds: dict[tuple[str, bool, bool], Rows] = {}
    for row in progress:
        kind = (str(row["relation"]), bool(row["automatic"]), bool(row["to_prevent_wraparound"]))
        kinds.setdefault(kind, []).append(row)
    limits = _limits(run)
    old = _oldest_by_relation(run, slice_ids)
    end_ms = seconds[-1].to_ms if seconds else 0.0
    courses = [
        _course(kind, rows, _effect(seconds, rows, progress),
                failsafe=_is_past(old.get(kind[0], (0.0, 0.0)), limits), end_ms=end_ms)
        for kind, rows in kinds.items()
    ]  # fmt: skip
    return sorted(courses, key=lambda each: -sum(count for _, count in each.phases))


def _limits(run: RunFile) -> Limits:
    """Return the ages from which vacuums are in the failsafe."""
    settings = run.run.server.get("settings") or {}

    def number(name: str) -> float | None:
        try:
            return float(settings[name])
        except (KeyError, ValueError):
            return None

    return limits_of(number)


def limits_of(number: Callable[[str], float | None]) -> Limits:
    """Return the ages from which vacuums are in the failsafe; ``number`` returns a setting."""
    return failsafe_age("xid", number), failsafe_age("mxid", number)


def vacuumed_in_failsafe(
    run: RunFile, slice_ids: Collection[int], limits: Limits
) -> dict[str, int]:
    """Return the relations older than the failsafe that a vacuum was seen on, with the number of
    samples in which it was."""
    old = _oldest_by_relation(run, slice_ids)
    seen = Counter(str(row["relation"]) for row in run.samples("metric_vacuum", slice_ids))
    return {name: n for name, n in seen.items() if _is_past(old.get(name, (0.0, 0.0)), limits)}


def _is_past(ages: tuple[float, float], limits: Limits) -> bool:
    """Return whether one of the ages is beyond its limit."""
    return any(age > limit for age, limit in zip(ages, limits, strict=True))


def _oldest_by_relation(run: RunFile, slice_ids: Collection[int]) -> dict[str, tuple[float, float]]:
    """Return the largest ages of each table, and of its TOAST table under the name of that."""
    found: dict[str, list[float]] = {}
    for table, place, columns in (
        ("metric_table", 0, ("xid_age", "toast_xid_age")),
        ("metric_autovacuum", 1, ("mxid_age", "toast_mxid_age")),
    ):
        for row in run.samples(table, slice_ids):
            for column, suffix in zip(columns, ("", " (TOAST)"), strict=True):
                ages = found.setdefault(f"{row['relation']}{suffix}", [0.0, 0.0])
                ages[place] = max(ages[place], row[column] or 0.0)
    return {name: (ages[0], ages[1]) for name, ages in found.items()}


def _course(
    kind: tuple[str, bool, bool], rows: Rows, effect: VacuumRatios, *, failsafe: bool, end_ms: float
) -> VacuumCourse:
    single = [list(each) for each in _separate(rows)]
    last = single[-1][-1]
    phases = Counter(str(row["phase"]) for row in rows)
    total, scanned = last["heap_blks_total"] or 0, last["heap_blks_scanned"] or 0
    rate = _pages_per_s(single[-1])
    running = last["at_ms"] >= end_ms - ENDED_MS and scanned < total
    memory = [row["dead_full"] for row in rows if row["dead_full"] is not None]
    return VacuumCourse(
        *kind,
        failsafe=failsafe,
        count=len(single),
        phases=tuple(phases.most_common()),
        scanned_share=scanned / total if total else None,
        index_passes=int(last["index_vacuum_count"] or 0),
        memory_share=max(memory, default=None),
        asleep_share=_asleep(single),
        pages_per_s=rate,
        left_s=(total - scanned) / rate if running and rate else None,
        effect=effect,
    )


def _separate(rows: Rows) -> Iterator[Rows]:
    """Yield the rows of each vacuum: of one process, with progress that only grows."""
    for pid in dict.fromkeys(row["pid"] for row in rows):
        mine = [row for row in rows if row["pid"] == pid]
        start = 0
        for place, (before, after) in enumerate(pairwise(mine), 1):
            if (after["heap_blks_scanned"] or 0) < (before["heap_blks_scanned"] or 0):
                yield mine[start:place]
                start = place
        yield mine[start:]


def _pages_per_s(rows: Rows) -> float | None:
    """Return the pages scanned per second between the first and the last sample of a vacuum."""
    first, last = rows[0], rows[-1]
    span_ms = float(last["at_ms"] - first["at_ms"])
    scanned = (last["heap_blks_scanned"] or 0) - (first["heap_blks_scanned"] or 0)
    return scanned * 1000 / span_ms if span_ms > 0 and scanned > 0 else None


def _asleep(single: Sequence[Rows]) -> float | None:
    """Return the part of the time in the cost delay; None if it was not timed."""
    slept_ms = span_ms = 0.0
    for rows in single:
        first, last = rows[0], rows[-1]
        if last["delay_ms"] is None:
            return None
        slept_ms += last["delay_ms"] - (first["delay_ms"] or 0.0)
        span_ms += float(last["at_ms"] - first["at_ms"])
    return min(1.0, slept_ms / span_ms) if span_ms and slept_ms else None
