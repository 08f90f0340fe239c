"""Measuring the points of a search within its budget: slices that are void are measured again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pgdyno.conduct import Session
from pgdyno.conduct.plan_look import look_at_plans
from pgdyno.diagnose import Diagnosis, Finding, diagnose
from pgdyno.errors import UsageError
from pgdyno.facts.periods import too_short
from pgdyno.record import SliceKind
from pgdyno.search._curve import Curve, Hold, merged_response
from pgdyno.search._points import Aim, PointSlice, VoidPoint, measure_point
from pgdyno.search._sizes import SizeSearch
from pgdyno.spec.units import format_duration

BUDGET_MS = 150_000
BUDGET_MS_MIN = 30_000
"""Seven doublings, eight repeats and the long slice, each as short as it can be."""
SLICES_MIN = 6
"""Slices without which nothing can be said, however slow the machine."""
_SLICE_SHARE = 1 / 60
_SLICE_SECONDS = (1.0, 30.0)
_HOLD_SHARE = 1 / 7
_HOLD_SECONDS = (4.0, 120.0)
"""From a budget of 2 min on, the long slice has the 16 values that show whether it is steady."""
_OVERHEAD_SECONDS = 1.0
"""Time of a slice in addition to its length, before the first one was measured."""
VOIDS_OF_POINT = 2
"""Void slices after which a point counts as one that cannot be measured."""
VOIDS_MAX = 6


def check_budget(budget_ms: int, *, searches: int = 1) -> None:
    """Raise UsageError for a budget that is too short for so many searches."""
    least_ms = searches * BUDGET_MS_MIN
    if budget_ms < least_ms:
        what = "a search needs" if searches == 1 else f"{searches} sizes to look for need"
        raise UsageError(
            f"--budget {format_duration(budget_ms)}: {what} at least {format_duration(least_ms)}:"
            " about 15 slices each, and a long one at the end",
            code="contradiction",
            hint=f"--budget {format_duration(least_ms)}; the default is"
            f" {format_duration(BUDGET_MS)}",
        )


class Times:
    """Seconds of load, from its creation on."""

    def __init__(self, budget_s: float) -> None:
        self._began_s = time.monotonic()
        self._deadline_s = self._began_s + budget_s
        self.slice_s = _within(budget_s * _SLICE_SHARE, _SLICE_SECONDS)
        self.hold_s = _within(budget_s * _HOLD_SHARE, _HOLD_SECONDS)
        self._overheads_s: list[float] = []

    @property
    def elapsed_s(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._began_s

    def took(self, seconds: float, *, measured_s: float) -> None:
        """Take note of how long a slice took in all."""
        self._overheads_s.append(max(seconds - measured_s, 0.0))

    @property
    def slices_left(self) -> int:
        """Number of slices for which there is time before the long one; the first few are measured
        in any case."""
        each_s = self.slice_s + self._overhead_s
        in_time = int((self._left_s - self.hold_s - self._overhead_s) / each_s)
        return max(0, in_time, SLICES_MIN - len(self._overheads_s))

    @property
    def has_hold(self) -> bool:
        """True if there is time for another long slice."""
        return self._left_s >= self.hold_s

    @property
    def _left_s(self) -> float:
        return self._deadline_s - time.monotonic()

    @property
    def _overhead_s(self) -> float:
        known = self._overheads_s[-10:]
        return sum(known) / len(known) if known else _OVERHEAD_SECONDS


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])


class Measuring:
    """The slices of a search, and the time that is left for more."""

    def __init__(self, session: Session, aim: Aim, budget_s: float) -> None:
        self.aim = aim
        self.times = Times(budget_s)
        self.curve = Curve()
        self._session = session
        self._voids: list[str] = []

    def search(self, search: SizeSearch) -> None:
        """Measure the sizes that a search asks for, until it ends or the time is over."""
        while wanted := search.next_round(self.times.slices_left):
            for size in wanted:
                if search.fewest <= size <= search.most:
                    self._measure_size(search, size)

    def _measure_size(self, search: SizeSearch, size: int) -> None:
        largest = max(self.curve.points, default=0)
        try:
            measured = self.measure(size, self.times.slice_s)
        except VoidPoint as void:
            # A point that was measured before, or less than that, was void for another reason than
            # its size.
            if size > largest:
                self._not_measured(search, size, void.why, first=not largest)
            return
        if measured.failing and (largest or not self._of_pool):
            search.cannot(size, f"with {size:,}, {measured.failing}")
            return
        self.curve.add(size, measured)
        search.add(size, max(measured.tps, 1e-3), met=self._is_met(size))

    @property
    def _of_pool(self) -> bool:
        return self.aim.varied in ("pool", "pooler")

    def _not_measured(self, search: SizeSearch, size: int, why: str, *, first: bool) -> None:
        """A pool may be too small for its clients to get anything done; clients may be too many."""
        if first and self._of_pool and 2 * size <= search.most:
            search.too_few(size)
        else:
            search.cannot(size, why)

    def _is_met(self, size: int) -> bool:
        """Return whether all slices of a size together meet the limits."""
        slices = self.curve.points[size]
        response = merged_response(slices)
        return all(each.is_met(response) for each in self.aim.limits) and not slices[-1].failing

    def measure(
        self, point: float, seconds: float, kind: SliceKind = SliceKind.POINT
    ) -> PointSlice:
        """Measure a slice at a point, again if it is void. Raises VoidPoint if it is so twice."""
        began_s = time.monotonic()
        for left in reversed(range(VOIDS_OF_POINT)):
            try:
                measured = measure_point(self._session, self.aim, point, seconds, kind=kind)
                self.times.took(time.monotonic() - began_s, measured_s=seconds)
                return measured
            except VoidPoint as void:
                self._voids.append(void.why)
                self._session.wait_served()
                if not left:
                    raise
        raise AssertionError("a point has at least one slice")

    def hold(self, point: float) -> Hold | None:
        """Measure the long slice; None if it is void."""
        self._session.watcher.phase("measuring whether it lasts", self.times.hold_s)
        try:
            measured = self.measure(point, self.times.hold_s, SliceKind.HOLD)
        except VoidPoint:
            return None
        return Hold.of(self._session.reader(), point, measured)

    def diagnosed(self, slice_ids: Sequence[int]) -> Diagnosis | None:
        """Look at the plans of slices' statements, and return their diagnosis; None if they are too
        short for one."""
        ids = list(slice_ids)
        if not ids or too_short(self._session.reader(), ids):
            return None
        look_at_plans(self._session, ids)
        return diagnose(self._session.reader(), ids)

    def lacks_time(self, search: SizeSearch) -> bool:
        """Return whether the time ended before the search did."""
        return self.times.slices_left == 0 and search.is_open

    def why_no_larger(self, search: SizeSearch, why_most: str) -> str:
        """Return why no larger size was tried; ``why_most``: the limit of the largest."""
        if max(self.curve.points, default=0) < search.most:
            return "the time budget ended"
        return search.why_ended or why_most

    def no_answer(self, why: str | None) -> str | None:
        """Return the reason why no answer can be trusted."""
        if not self.curve.points:
            return why or "; ".join(dict.fromkeys(self._voids)) or "the budget ended too soon"
        if len(self._voids) >= VOIDS_MAX:
            return f"{len(self._voids)} slices are void: {'; '.join(dict.fromkeys(self._voids))}"
        return None


def record_findings(session: Session, diagnosis: Diagnosis | None) -> list[Finding]:
    """Record the findings of a search, without proposals: nothing is tried here. Return them."""
    found = diagnosis.findings if diagnosis else []
    for finding in found:
        session.recorder.add_finding(finding.model_copy(update={"proposals": ()}))
    return found
