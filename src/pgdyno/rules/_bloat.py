"""Dead rows made during a period, and what they cost: more pages visited for each transaction.

The counters of a table do not say how many dead versions a scan visits, but each costs an access to
its page. A transaction that accesses more pages at the end of a period than at its beginning, and
takes longer, works its way through versions that nothing has removed. Both must have grown: a
throughput that falls alone has another reason. ANALYZE sets n_dead_tup to its own estimate, which
leaves out rows that a snapshot can still see, so the rows made dead are counted instead.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from msgspec import Struct

from pgdyno.facts.budget import Part
from pgdyno.facts.intervals import timed
from pgdyno.facts.situation import Situation
from pgdyno.facts.slices import Facts
from pgdyno.numbers import percent
from pgdyno.record import Series
from pgdyno.record.finding import Evidence, Skip, Window
from pgdyno.rules._cpu_uses import cpu_parts

SECONDS_MIN = 6.0
"""Shortest period that is divided into thirds: two samples a third."""
GROWTH_MIN = 1.5
"""Growth of pages per transaction that is no chance. Calibrated by injection, 18 s of TPC-B at
scale 1: a healthy load had 1.01 to 1.18, one whose oldest snapshot was kept open 2.1 to 3."""
PAGE_PART = 0.5
"""Part of a transaction's CPU time that grows with its pages. Calibrated by injection: where they
grew by a factor of 2.1 to 3.1 under a kept snapshot, CPU time per transaction grew by 0.4 to 0.7 of
what they would explain."""
DEAD_ROWS_MIN = 1000
"""Fewer dead rows cost nothing that can be measured."""


class Bloat(Struct, frozen=True):
    """Rows made dead in a period, and its first third against its last one."""

    rows_dead: float
    """Rows updated or deleted: each left a dead version."""
    seconds: float
    pages_first: float
    """Page accesses per transaction."""
    pages_last: float
    tps_first: float
    tps_last: float
    parts_at_pages: tuple[Part, ...]
    """Parts of the response time that grow with the pages: CPU time with its queue for a core, and
    reads of data."""
    at_pages: float
    """Their share of it."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Parts of the response time in which ``share`` is; none if there is none."""
        return self.parts_at_pages if self.share > 0 else ()

    @property
    def rows_dead_s(self) -> float:
        """Rows made dead per second."""
        return self.rows_dead / self.seconds

    @property
    def growth(self) -> float:
        """Factor by which the page accesses of a transaction have grown."""
        return self.pages_last / self.pages_first if self.pages_first > 0 else 1.0

    @property
    def pages_start(self) -> float:
        """Page accesses per transaction at the very beginning, if they grew steadily."""
        return max(
            self.pages_first / 2, self.pages_first - (self.pages_last - self.pages_first) / 4
        )

    @property
    def share(self) -> float:
        """Share of the response time at the end that the growth explains, 0 to 1.

        The larger of two estimates: what throughput has lost, and not more than the pages explain;
        and ``PAGE_PART`` of what they explain of the time for which sessions ran, wanted to run or
        read data. 0 if the pages grew by less than ``GROWTH_MIN``.
        """
        if self.growth < GROWTH_MIN:
            return 0.0
        lost = 1.0 - self.tps_last / self.tps_first if self.tps_first > 0 else 0.0
        by_throughput = min(lost, 1.0 - 1.0 / self.growth)
        by_pages = self.at_pages * PAGE_PART * (1.0 - self.pages_start / self.pages_last)
        return max(0.0, by_throughput, by_pages)


def bloat(s: Situation) -> Bloat:
    """Return the effect of dead rows over the period. Raises Skip if it is too short or not
    recorded."""
    if s.seconds < SECONDS_MIN:
        raise Skip(f"dead rows take more than the {s.seconds:.2g} s measured to show")
    made = [s.run.delta("metric_table", name, s.slice_ids) for name in ("n_tup_upd", "n_tup_del")]
    if None in made:
        raise Skip("the tables' counters were not recorded")
    thirds = _thirds(s)
    pages_first, pages_last = (_pages_per_transaction(s, third) for third in thirds)
    tps_first, tps_last = (_tps(s, third) for third in thirds)
    parts: tuple[Part, ...] = (*cpu_parts(s), "data")
    return Bloat(
        rows_dead=sum(each or 0.0 for each in made),
        seconds=s.seconds,
        pages_first=pages_first,
        pages_last=pages_last,
        tps_first=tps_first,
        tps_last=tps_last,
        parts_at_pages=parts,
        at_pages=s.budget.share(*parts),
    )


def bloat_evidence(s: Facts, seen: Bloat) -> list[Evidence]:
    """Return the evidence on dead rows and their cost."""
    first, last = _thirds(s)
    return [
        s.evidence("rows updated or deleted", seen.rows_dead, "rows", f"at least {DEAD_ROWS_MIN}"),
        Evidence(
            name="page accesses per transaction, first third",
            value=seen.pages_first,
            unit="count",
            window_ms=first,
        ),
        Evidence(
            name="page accesses per transaction, last third",
            value=seen.pages_last,
            unit="count",
            threshold=f"at least {GROWTH_MIN:g} times as many",
            window_ms=last,
        ),
        Evidence(name="throughput, first third", value=seen.tps_first, unit="tps", window_ms=first),
        Evidence(name="throughput, last third", value=seen.tps_last, unit="tps", window_ms=last),
        s.evidence("response time that this growth explains", seen.share, "share"),
    ]


def cost_in_words(seen: Bloat) -> str:
    """Return the clause on what dead rows cost; '' if nothing was measured."""
    if seen.share <= 0:
        return ""
    return (
        f"; a transaction accesses {seen.growth:.1f} times as many pages at the end of the run as"
        f" at its beginning, and {percent(seen.share)} of its time is explained by that"
    )


def _thirds(s: Facts) -> tuple[Window, Window]:
    began, ended = s.window_ms
    third = (ended - began) // 3
    return (began, began + third), (ended - third, ended)


def _pages_per_transaction(s: Facts, window: Window) -> float:
    rows = s.run.series("metric_database", s.slice_ids)
    pages = rows["blks_hit"] + rows["blks_read"]
    rise = _rise_within(rows, pages, window)
    commits = _rise_within(rows, rows["xact_commit"], window)
    if not commits:
        raise Skip("the database's counters did not move while the load was measured")
    return rise / commits


def _rise_within(rows: Series, values: Any, window: Window) -> float:
    """Return the rise of a counter from sample to sample, of one slice, within ``window``."""
    total = 0.0
    for i in range(1, len(values)):
        inside = window[0] <= rows["at_ms"][i - 1] and rows["at_ms"][i] <= window[1]
        if inside and rows["slice_id"][i] == rows["slice_id"][i - 1]:
            total += max(0.0, float(values[i] - values[i - 1]))
    return total


def _tps(s: Facts, window: Window) -> float:
    rates = [
        each.done * 1000 / each.duration_ms
        for each in timed(s.run.intervals(s.slice_ids))
        if window[0] <= each.at_ms < window[1]
    ]
    return median(rates) if rates else 0.0
