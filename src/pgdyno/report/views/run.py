"""The view of a single run, which has the sections of each load: headline, and seconds as rows."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import View

if TYPE_CHECKING:
    from pgdyno.record import RunFile
    from pgdyno.report.summary import RunSummary
    from pgdyno.shapes import Row


def interval_rows(run: RunFile) -> Iterator[Row]:
    """Yield one row per second of a run."""
    latency = run.latency_series("response", (50, 95, 99), points_max=1_000_000)
    by_time = dict(
        zip(latency["at_ms"], zip(latency["p50"], latency["p99"], strict=True), strict=True)
    )
    for interval in run.intervals():
        p50, p99 = by_time.get(interval.at_ms, (float("nan"), float("nan")))
        yield {
            "at_s": interval.at_ms / 1000,
            "seconds": round(interval.duration_ms / 1000, 3),
            "clients": interval.clients,
            "done": interval.done,
            "failed": interval.failed,
            "throughput_tps": round(interval.throughput_tps, 1),
            "response_ms_p50": round(float(p50), 3),
            "response_ms_p99": round(float(p99), 3),
        }


def _headline(summary: RunSummary) -> str:
    """Return throughput and p99; '' if no transaction was done."""
    figures = summary.before
    if figures is None:
        return ""
    words = f"{numbers.tps(figures.throughput_tps)} transactions per second"
    if figures.latency_p99_ms is None:
        return words
    return f"{words}, 99 % within {numbers.ms(figures.latency_p99_ms)}"


VIEW = View(
    "run",
    verdict=attrgetter("verdict.sentence"),
    headline=_headline,
    measured_rows=interval_rows,
    is_run=True,
    lines_max=54,
)
