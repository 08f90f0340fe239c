"""A server of an old age in words: its periods under load, its recovery, its tables."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import Answer, OnPage, Part, Section, Terms, View
from pgdyno.report.words.tables import Table, figures_table
from pgdyno.spec.age import ID_NOUNS

if TYPE_CHECKING:
    from pgdyno.json_types import Row
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.age import AgePeriod, AgeResult, AgeTable

HEAD = (
    "period",
    "seconds",
    "tps",
    "p99 ms",
    "refused",
    "failed",
    "forced vacuums",
    "failsafe",
    "warnings",
)
TABLES_HEAD = ("table", "rows before", "inserted", "rows after", "complete")
TABLES_NAMED_MAX = 3


def rows(result: AgeResult) -> list[list[str]]:
    """Return a row for each period."""
    return [
        [
            name,
            f"{period.seconds:.1f}",
            numbers.tps(period.throughput_tps),
            numbers.ms_figure(period.latency_ms_p99),
            *(f"{count:,}" for count in _counts(period)),
        ]
        for name, period in periods(result)
    ]


def periods(result: AgeResult) -> Iterator[tuple[str, AgePeriod]]:
    """Yield the periods under load by name."""
    yield "before", result.before
    yield "at that age", result.under_age
    if result.recovery is not None:
        yield "recovery", result.recovery.period


def _counts(period: AgePeriod) -> tuple[int, ...]:
    return (period.refused, period.failed, period.vacuums, period.failsafe, period.warnings)


def table_rows(result: AgeResult) -> list[list[str]]:
    """Return a row for each table."""
    return [
        [
            each.table,
            f"{each.before:,}",
            numbers.count(each.inserted),
            f"{each.after:,}",
            {True: "yes", False: "no", None: "not known"}[each.complete],
        ]
        for each in result.tables
    ]


def tables(result: AgeResult) -> list[Table]:
    """Return periods and tables as tables of the page."""
    return [
        figures_table("Periods under load", HEAD, rows(result)),
        figures_table("Rows", TABLES_HEAD, table_rows(result)),
    ]


def sentences(result: AgeResult) -> dict[str, str]:
    """Return label and sentence of what is said below the periods; empty ones are left out."""
    said = {
        "age": (
            f"the oldest {ID_NOUNS[result.of]}: {result.age_before:,} before, {result.age:,} after"
            f" {result.seconds:.2f} s, in which the server was stopped and started"
        ),
        "statements": _statements(result.under_age),
        "failsafe": _failsafe(result),
        "recovery": _recovery(result),
        "rows": _rows_words(result.tables),
        **{each.name: each.detail for each in result.checks},
    }
    return {label: text for label, text in said.items() if text}


def _statements(period: AgePeriod) -> str:
    reads = f"{period.reads_done:,} that read and {period.writes_done:,} others were done"
    refused = f"; {period.refused:,} transactions were refused an ID" if period.refused else ""
    return f"at that age, {reads}{refused}"


def _failsafe(result: AgeResult) -> str:
    """Return the tables of the load that the failsafe vacuumed."""
    names = dict.fromkeys(name for _, period in periods(result) for name in period.failsafe_tables)
    total = sum(period.failsafe for _, period in periods(result))
    if not total:
        return ""
    listed = numbers.listed(list(names), TABLES_NAMED_MAX)
    load = f"of the load's: {listed}" if names else "none of them of the load's"
    return f"{total:,} vacuums of tables went on without cost delay and without indexes, {load}"


def _recovery(result: AgeResult) -> str:
    found = result.recovery
    if found is None:
        return ""
    ended = "not within the limit" if found.seconds is None else f"after {found.seconds:.1f} s"
    writes = (
        f"; it assigned IDs again after {found.writes_seconds:.1f} s"
        if found.writes_seconds is not None
        else ""
    )
    return (
        f"age below {found.below:,} {ended}, {found.age:,} at the end{writes}; by autovacuum alone,"
        f" with autovacuum_naptime = 1s"
    )


def _rows_words(found: tuple[AgeTable, ...]) -> str:
    bad = [each for each in found if each.complete is False]
    if bad:
        return "; ".join(
            f"{each.table}: {each.before:,} and {numbers.count(each.inserted)} inserted, and"
            f" {each.after:,} are there"
            for each in bad
        )
    known = [each for each in found if each.complete]
    inserted = sum(each.inserted or 0 for each in known)
    before = sum(each.before for each in known)
    if not known:
        return "the statements of the load do not tell how many there should be"
    unknown = len(found) - len(known)
    rest = f"; of {unknown} tables it is not known" if unknown else ""
    return (
        f"all {before + inserted:,} are there, {inserted:,} of them inserted under load, in"
        f" {len(known)} {'table' if len(known) == 1 else 'tables'}{rest}"
    )


def _sections(summary: RunSummary) -> list[Section]:
    result: AgeResult | None = summary.result_of("age")
    if result is None:
        return []
    periods_table, rows_table = tables(result)
    parts: list[Part] = [
        periods_table,
        Answer(result.sentence),
        OnPage(rows_table),
        Terms(sentences(result)),
    ]
    return [Section("age", "Old age", parts)]


def _csv(result: AgeResult) -> Iterator[Row]:
    """Yield one row per period."""
    for name, period in periods(result):
        yield {
            "period": name,
            **period.model_dump(exclude={"failsafe_tables"}),
            "failsafe_tables": " ".join(period.failsafe_tables),
        }


VIEW = View("age", _sections, verdict=attrgetter("sentence"), has_several_loads=True, rows=_csv)
