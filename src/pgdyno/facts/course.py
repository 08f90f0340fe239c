"""The course of a run: sudden changes of its throughput and response times, and near stops.

Read from the run file alone, for the result, the summary and the page alike. A rate that changes by
plan is no finding: levels are compared only within periods under one and the same load, which end
where the number of clients changes, at each step of a rate, and around each event of the spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.facts._coinciding import Ties
from pgdyno.facts.changes import (
    PercentileChange,
    ThroughputChange,
    latency_changes,
    latency_series,
    searched,
    throughput_changes,
    unsearched_groups,
)
from pgdyno.facts.drops import Drops, ThroughputDrop, find_drops
from pgdyno.facts.intervals import follows, timed
from pgdyno.facts.slices import Facts
from pgdyno.json_types import Fields
from pgdyno.numbers import duration, figure
from pgdyno.record import Interval, RunFile
from pgdyno.record.finding import Skip, Window
from pgdyno.spec.units import parse_duration_ms
from pgdyno.stats import POINTS_MIN

WAVES = ("burst", "sine", "day")
"""Shapes of arrivals whose rate never stays the same."""
PLANNED_EVENTS = ("sql", "setting", "restart")
"""Kinds of event that a spec, or pgdyno itself, brings about."""


class SearchEnd(Enum):
    """The end of a search that found nothing."""

    NONE_FOUND = auto()
    SHOWN_BY_THROUGHPUT = auto()
    """None but those that changes of throughput show."""
    TOO_SHORT = auto()
    PLANNED_RATE = auto()
    """The rate changes by plan all the time."""
    TOO_FEW_TRANSACTIONS = auto()
    UNTRUSTED = auto()
    NOT_MEASURED = auto()

    @property
    def was_made(self) -> bool:
        """True if a change would have been found."""
        return self in (SearchEnd.NONE_FOUND, SearchEnd.SHOWN_BY_THROUGHPUT)


class Absence(Struct, frozen=True):
    """The reason why there are no changes, or no drops."""

    search: SearchEnd
    sentence: str


class Course(Struct, frozen=True):
    """Changes and drops of a run, and the reason for each kind of which there are none."""

    changes: Sequence[ThroughputChange]
    changes_absent: Absence | None
    latency_changes: Sequence[PercentileChange]
    """Those that no change of throughput says already."""
    latency_changes_absent: Absence | None
    latency_unsearched: Sequence[str]
    """Client groups, of several, in which too few transactions ended to search their response
    times."""
    drops: Sequence[ThroughputDrop]
    drops_absent: Absence | None
    median_tps: float

    @property
    def latency_searched(self) -> bool:
        """False if no change of response times could be found."""
        absent = self.latency_changes_absent
        return absent is None or absent.search.was_made

    @property
    def all_changes(self) -> list[ThroughputChange | PercentileChange]:
        """Changes of throughput and of response times, in time order."""
        return sorted([*self.changes, *self.latency_changes], key=lambda change: change.at_ms)

    def drop_sentence(self, drop: ThroughputDrop) -> str:
        """Text of the drop with its duration and cause, without its time."""
        overlap = f"overlapped with {'; '.join(drop.beside)}" if drop.explained else drop.detail
        return (
            f"throughput nearly stopped for {duration(drop.duration_ms / 1000)},"
            f" {figure(drop.done_tps)} tps where the median is {figure(self.median_tps)}; {overlap}"
        )

    def latency_json(self) -> dict[str, object]:
        """Return the changes of response times in their form in results."""
        return {
            "changes": [change.to_json() for change in self.latency_changes],
            "changes_absent": _sentence(self.latency_changes_absent),
            "groups_not_examined": list(self.latency_unsearched),
        }

    def to_json(self) -> dict[str, object]:
        """Return the changes and drops of throughput, in their form in results."""
        return {
            "changes": [change.to_json() for change in self.changes],
            "changes_absent": _sentence(self.changes_absent),
            "drops": [
                {
                    "at_s": round(drop.window_ms[0] / 1000, 1),
                    "lasted_s": round(drop.duration_ms / 1000, 1),
                    "throughput_tps": round(drop.done_tps, 2),
                    "overlapped_with": drop.beside,
                    "sentence": self.drop_sentence(drop),
                }
                for drop in self.drops
            ],
            "drops_absent": _sentence(self.drops_absent),
        }


def _sentence(absent: Absence | None) -> str | None:
    return absent.sentence if absent else None


def course_of(run: RunFile, slice_ids: list[int]) -> Course:
    """Return the course of the load over the measured slices of a single run."""
    void = next((why for number in slice_ids if (why := run.slice(number).void)), None)
    if void is not None or not slice_ids:
        # The reason is said once, where the run is called not trusted.
        absent = (
            Absence(SearchEnd.UNTRUSTED, "not examined: the run is not trusted")
            if void
            else Absence(SearchEnd.NOT_MEASURED, "not examined: nothing was measured")
        )
        return Course((), absent, (), absent, (), (), absent, 0.0)
    changes = _changes(run, slice_ids)
    facts = Facts(run, slice_ids)
    try:
        drops = find_drops(facts)
    except Skip as reason:
        drops = Drops((), 0.0, 0, 0.0, 0.0)
        absence: Absence | None = _too_short(str(reason))
    else:
        whole_ms = sum(interval.duration_ms for interval in run.intervals(slice_ids))
        absence = _no_drop(drops, whole_ms)
    ties = Ties(facts)
    tied = [replace(d, events=(*d.events, *ties.during(d.window_ms))) for d in drops.all]
    return Course(*changes, tied, absence, drops.median_tps)


def _no_drop(drops: Drops, whole_ms: float) -> Absence | None:
    if not drops.median_tps:
        return _too_short(
            "no transaction ended in most of the time, so that there is no usual throughput"
        )
    if drops.all:
        return None
    return _none_found(1000 * drops.expected / drops.median_tps, whole_ms)


def _changes(
    run: RunFile, slice_ids: list[int]
) -> tuple[
    list[ThroughputChange], Absence | None, list[PercentileChange], Absence | None, list[str]
]:
    """Return the changes of throughput and of response times, the reason for each if there are
    none, and the groups whose response times were not searched."""
    plan = _Plan(run)
    if plan.varying_rate:
        sentence = f"not examined: the rate changes by plan ({plan.varying_rate})"
        absent = Absence(SearchEnd.PLANNED_RATE, sentence)
        return [], absent, [], absent, []
    intervals = timed(run.intervals(slice_ids))
    periods = list(_periods(intervals, plan))
    long_enough = [period for period in periods if len(period) >= POINTS_MIN]
    if not long_enough:
        longest = max((len(period) for period in periods), default=0)
        noun = "interval" if longest == 1 else "intervals"
        absent = _too_short(
            f"the longest period under one load has {longest} {noun}, {POINTS_MIN} are needed"
        )
        return [], absent, [], absent, []
    ties = Ties(Facts(run, slice_ids))
    series = latency_series(run, slice_ids, long_enough)
    beside = searched(series)
    of_rate = [each for period in long_enough for each in throughput_changes(period, beside=beside)]
    of_latency, any_at_all = latency_changes(series, of_rate, beside=beside)
    searched_ms = sum(i.duration_ms for period in long_enough for i in period)
    whole_ms = sum(interval.duration_ms for interval in intervals)
    none_found = _none_found(searched_ms, whole_ms)
    if not any(each.is_searched for each in series):
        too_few = "not examined: too few transactions ended"
        why_not = Absence(SearchEnd.TOO_FEW_TRANSACTIONS, too_few)
    elif any_at_all:
        shown = "none but those that throughput shows"
        why_not = Absence(SearchEnd.SHOWN_BY_THROUGHPUT, shown)
    else:
        why_not = none_found
    return (
        [replace(each, overlapped=ties.around(each.at_ms)) for each in of_rate],
        None if of_rate else none_found,
        [replace(c, overlapped=ties.around(c.at_ms, within_ms=c.within_ms)) for c in of_latency],
        None if of_latency else why_not,
        unsearched_groups(series),
    )


def _too_short(reason: str) -> Absence:
    return Absence(SearchEnd.TOO_SHORT, f"too short to judge: {reason}")


def _none_found(searched_ms: float, whole_ms: float) -> Absence:
    """Return the absence of changes, with the part of the time examined if not nearly all."""
    sentence = "none was found"
    if searched_ms < 0.9 * whole_ms:
        searched_s, whole_s = searched_ms / 1000, whole_ms / 1000
        sentence += f" in the {searched_s:.0f} of {whole_s:.0f} s that could be searched"
    return Absence(SearchEnd.NONE_FOUND, sentence)


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
    """The times at which the spec changes the load or the server."""

    def __init__(self, run: RunFile) -> None:
        self._run = run
        self._spec = run.run.spec

    @cached_property
    def _arrivals(self) -> list[Fields]:
        arrivals = [group.get("arrival") for group in self._spec.get("clients") or []]
        return [arrival for arrival in arrivals if isinstance(arrival, dict)]

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
