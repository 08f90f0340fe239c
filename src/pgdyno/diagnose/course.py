"""The course of a run's throughput: sudden changes of its level, and moments it nearly stopped.

Read from the run file alone, for the result, the summary and the page alike. A rate that changes by
plan is no finding: levels are compared only within periods under one and the same load, which end
where the number of clients changes, at each step of a rate, and around each event of the spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import mean, median
from typing import Any

from pgdyno.diagnose._drops import Drop, Drops, find_drops
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Skip, Window
from pgdyno.diagnose.intervals import follows, timed
from pgdyno.diagnose.words import figure
from pgdyno.record import Interval, RunFile
from pgdyno.spec.units import parse_duration_ms
from pgdyno.stats import POINTS_MIN, change_points
from pgdyno.stats.changes import SEGMENT_MIN
from pgdyno.stats.steady import DRIFT_MATTERS

SUDDEN_SHARE = 0.5
"""Share of a level change that the adjacent seconds must show; otherwise it is a slow drift."""
WAVES = ("burst", "sine", "day")
"""Shapes of arrivals whose rate never stays the same."""
PLANNED_EVENTS = ("sql", "setting", "restart")
"""Kinds of event that a spec, or pgdyno itself, brings about."""


@dataclass(frozen=True)
class LevelChange:
    """A moment at which throughput went from one level to another, both medians of intervals."""

    at_ms: int
    before_tps: float
    after_tps: float

    @property
    def sentence(self) -> str:
        """Text of the change, without its time."""
        went = "fell" if self.after_tps < self.before_tps else "rose"
        return f"throughput {went} from {figure(self.before_tps)} to {figure(self.after_tps)} tps"

    def to_json(self) -> dict[str, Any]:
        """Return the form in results."""
        return {
            "at_s": round(self.at_ms / 1000, 1),
            "before_tps": round(self.before_tps, 2),
            "after_tps": round(self.after_tps, 2),
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Course:
    """Changes and drops of a run, and a sentence about each search that found nothing."""

    changes: Sequence[LevelChange]
    changes_absent: str
    drops: Sequence[Drop]
    drops_absent: str
    median_tps: float

    def drop_sentence(self, drop: Drop) -> str:
        """Text of the drop with its duration and cause, without its time."""
        beside = [*drop.events, drop.detail] if drop.explained or not drop.events else drop.events
        overlap = f"overlapped with {'; '.join(beside)}" if drop.overlapped else drop.detail
        return (
            f"throughput nearly stopped for {figure(drop.duration_ms / 1000)} s,"
            f" {figure(drop.done_tps)} tps where the median is {figure(self.median_tps)}; {overlap}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form in results."""
        return {
            "changes": [change.to_json() for change in self.changes],
            "changes_absent": self.changes_absent or None,
            "drops": [
                {
                    "at_s": round(drop.window_ms[0] / 1000, 1),
                    "lasted_s": round(drop.duration_ms / 1000, 1),
                    "throughput_tps": round(drop.done_tps, 2),
                    "overlapped_with": [*drop.events, *([drop.detail] if drop.explained else [])],
                    "sentence": self.drop_sentence(drop),
                }
                for drop in self.drops
            ],
            "drops_absent": self.drops_absent or None,
        }


def course_of(run: RunFile, slice_ids: list[int]) -> Course:
    """Return the course of throughput over the measured slices of a single run."""
    void = next((why for number in slice_ids if (why := run.slice(number).void)), None)
    if void is not None or not slice_ids:
        absent = f"not examined: {void or 'nothing was measured'}"
        return Course((), absent, (), absent, 0.0)
    changes, changes_absent = _changes(run, slice_ids)
    try:
        drops = find_drops(Situation(run, slice_ids))
    except Skip as reason:
        drops = Drops((), 0.0, 0, 0.0, 0.0)
        drops_absent = f"too short to judge: {reason}"
    else:
        searched_ms = 1000 * drops.expected / drops.median_tps if drops.median_tps else 0.0
        whole_ms = sum(interval.duration_ms for interval in run.intervals(slice_ids))
        drops_absent = "" if drops.all else _none_found(searched_ms, whole_ms)
    return Course(changes, changes_absent, drops.all, drops_absent, drops.median_tps)


def _changes(run: RunFile, slice_ids: list[int]) -> tuple[list[LevelChange], str]:
    """Return sentences for the changes, or for their absence."""
    plan = _Plan(run)
    if plan.varying_rate:
        return [], f"not examined: the rate changes by plan ({plan.varying_rate})"
    intervals = timed(run.intervals(slice_ids))
    periods = list(_periods(intervals, plan))
    long_enough = [period for period in periods if len(period) >= POINTS_MIN]
    if not long_enough:
        longest = max((len(period) for period in periods), default=0)
        noun = "interval" if longest == 1 else "intervals"
        return [], (
            f"too short to judge: the longest period under one load has {longest} {noun},"
            f" {POINTS_MIN} are needed"
        )
    found = [change for period in long_enough for change in _changes_in(period)]
    searched_ms = sum(i.duration_ms for period in long_enough for i in period)
    whole_ms = sum(interval.duration_ms for interval in intervals)
    return found, "" if found else _none_found(searched_ms, whole_ms)


def _none_found(searched_ms: float, whole_ms: float) -> str:
    """Return the sentence for no change, with the part of the time examined if not nearly all."""
    if searched_ms >= 0.9 * whole_ms:
        return "none was found"
    searched_s, whole_s = searched_ms / 1000, whole_ms / 1000
    return f"none was found in the {searched_s:.0f} of {whole_s:.0f} s that could be searched"


def _changes_in(period: Sequence[Interval]) -> Iterator[LevelChange]:
    """Changes of level that matter and are sudden."""
    rates = [interval.throughput_tps for interval in period]
    edges = [0, *change_points(rates), len(rates)]
    for (start, point), (_, end) in pairwise(pairwise(edges)):
        before, after = median(rates[start:point]), median(rates[point:end])
        moved = after - before
        if abs(moved) < DRIFT_MATTERS * max(before, after):
            continue
        beside = mean(rates[point : point + SEGMENT_MIN]) - mean(rates[point - SEGMENT_MIN : point])
        if beside / moved >= SUDDEN_SHARE:
            yield LevelChange(period[point].at_ms, before, after)


def _periods(intervals: Sequence[Interval], plan: _Plan) -> Iterator[list[Interval]]:
    """Stretches of intervals under one load; those in which the plan changes it are left out."""
    period: list[Interval] = []
    for each in intervals:
        goes_on = period and follows(period[-1], each) and period[-1].clients == each.clients
        if plan.changes_in(each) or not goes_on:
            if period:
                yield period
            period = []
        if not plan.changes_in(each):
            period.append(each)
    if period:
        yield period


class _Plan:
    """Return the times at which the spec changes the load or the server."""

    def __init__(self, run: RunFile) -> None:
        self._run = run
        self._spec = run.run.spec

    @cached_property
    def _arrivals(self) -> list[Mapping[str, Any]]:
        arrivals = [group.get("arrival") for group in self._spec.get("clients") or []]
        return [arrival for arrival in arrivals if isinstance(arrival, Mapping)]

    @property
    def varying_rate(self) -> str:
        """The shape of a rate that changes all the time; '' if there is none."""
        return next((name for each in self._arrivals for name in WAVES if each.get(name)), "")

    def changes_in(self, interval: Interval) -> bool:
        """True if the plan changes something within ``interval``."""
        end_ms = interval.at_ms + interval.duration_ms
        return any(start < end_ms and end >= interval.at_ms for start, end in self._windows)

    @cached_property
    def _windows(self) -> list[Window]:
        windows = [
            (event.at_ms, round(event.at_ms + (event.duration_ms or 0)))
            for event in self._run.events()
            if event.kind in PLANNED_EVENTS
        ]
        began_ms = min((s.started_ms for s in self._run.slices()), default=0)
        for event in self._spec.get("events") or []:  # one that failed has no event of its kind
            at_ms = began_ms + parse_duration_ms(event["at"])
            windows.append((at_ms, at_ms))
        steps = [*((self._spec.get("load") or {}).get("steps") or [])]
        steps += [step for arrival in self._arrivals for step in arrival.get("steps") or []]
        for step in steps:
            at_ms = began_ms + parse_duration_ms(step["at"])
            windows.append((at_ms, at_ms + parse_duration_ms(step.get("ramp") or "0s")))
        return windows
