"""The view of a single run, with the sections of each load: headline, records, seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import OnPage, Section, Terms, View
from pgdyno.report.words import plans, unusual

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.record import RunFile
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.run import RunResult
    from pgdyno.results.run_parts import EntityResolution, TpccLike


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


def records(summary: RunSummary) -> list[Section]:
    """Return the section about the figures of the workload itself, if the run has them."""
    terms = workload_sentences(summary.single_run) if summary.single_run else {}
    return [Section("records", "Workload", [OnPage(Terms(terms))])] if terms else []


def workload_sentences(result: RunResult) -> dict[str, str]:
    """Return label and sentence about the records of entity-resolution, or the orders of
    tpcc-like, and whether their tables are consistent."""
    if entities := result.entity_resolution:
        return {"records": _records(entities), "consistency": _consistency(entities)}
    if orders := result.tpcc_like:
        return {"NOPM": _orders(orders), "consistency": _conditions(orders)}
    return {}


def is_consistent(result: RunResult) -> bool:
    """Return whether the tables of the workload agree after the load, as far as they are
    checked."""
    checked = (result.entity_resolution, result.tpcc_like)
    return all(each.consistent for each in checked if each)


def _orders(found: TpccLike) -> str:
    return (
        f"{numbers.figure(found.new_orders_per_min)} New-Orders and"
        f" {numbers.figure(found.transactions_per_min)} transactions (tpm) per minute, not"
        " comparable with audited results of TPC-C"
    )


def _conditions(found: TpccLike) -> str:
    if not found.consistent:
        return _broken(found.broken)
    return "conditions 1 to 4 of TPC-C hold"


def _broken(broken: Mapping[str, int]) -> str:
    return "broken: " + "; ".join(f"{count:,} {rule}" for rule, count in broken.items())


def _records(found: EntityResolution) -> str:
    each = found.statements_per_record
    per_record = "" if each is None else f", {each:.1f} statements per record"
    return (
        f"{numbers.tps(found.records_per_s)} per second{per_record};"
        f" {found.records_in_tables:,} in {found.entities:,} entities"
    )


def _consistency(found: EntityResolution) -> str:
    """Return whether the tables agree with each other."""
    if not found.consistent:
        return _broken(found.broken)
    cut_off = f"; {found.unfinished:,} were cut off on the way" if found.unfinished else ""
    return f"every finished record is in exactly one entity, and the counts agree{cut_off}"


def _sections(summary: RunSummary) -> list[Section]:
    settings = summary.single_run.unusual_settings if summary.single_run else None
    return [*records(summary), *plans.sections(summary.run), *unusual.sections(settings)]


VIEW = View(
    "run",
    _sections,
    verdict=attrgetter("verdict.sentence"),
    headline=_headline,
    measured_rows=interval_rows,
    is_run=True,
    lines_max=54,
)
