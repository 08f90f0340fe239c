"""Measuring the points of a search within its budget: slices that are void are measured again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pgdyno.conduct import Session
from pgdyno.diagnose import Diagnosis, Finding, diagnose, too_short
from pgdyno.record import SliceKind
from pgdyno.search.curve import Curve, Hold, merged_response
from pgdyno.search.points import Aim, PointSlice, VoidPoint, measure_point
from pgdyno.search.sizes import SizeSearch
from pgdyno.search.times import Times

VOIDS_OF_POINT = 2
"""Void slices after which a point counts as one that cannot be measured."""
VOIDS_MAX = 6


class Measuring:
    """The slices of a search, and the time that is left for more."""

    def __init__(self, session: Session, aim: Aim, budget_s: float) -> None:
        self.aim = aim
        self.times = Times(budget_s)
        self.curve = Curve()
        self._session = session
        self._voids: list[str] = []

    def search(self, search: SizeSearch) -> None:
        """Measure what a search for a size wants, until it ends or the time is over."""
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
        """Return the diagnosis of slices; None if they are too short for one."""
        run, ids = self._session.reader(), list(slice_ids)
        return None if not ids or too_short(run, ids) else diagnose(run, ids)

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
