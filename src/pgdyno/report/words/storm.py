"""Storms in words: each one, and what would change them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.record import Distribution, RunFile, SliceKind
from pgdyno.report.words.tables import Table, figures_table

if TYPE_CHECKING:
    from pgdyno.results.storm import StormResult, Variant

HEAD = ("clients", "survived", "steady after, s", "connected", "connect p50 ms", "errors", "note")
VARIANTS_HEAD = ("with", "survived", "steady after, s", "from – to", "errors")
PLAIN = "as it is"
CAUSES_MAX = 4


def rows(result: StormResult) -> list[list[str]]:
    """Return a row for each storm of the search."""
    return [
        [
            f"{point.clients:,}",
            "yes" if point.survived else "no",
            _seconds(point.steady_s),
            f"{point.connected:,}",
            numbers.ms_figure(point.connect_ms_p50),
            f"{sum(each.count for each in point.errors):,}",
            "largest" if point == result.largest else point.why,
        ]
        for point in result.points
    ]


def variant_rows(result: StormResult) -> list[list[str]]:
    """Return a row for each thing that was changed, the storm as it is first."""
    return [
        [
            each.title or PLAIN,
            f"{each.survived} of {each.storms}",
            _seconds(each.steady_s),
            _range(each),
            f"{each.errors:,}",
        ]
        for each in result.variants
    ]


def tables(result: StormResult) -> list[Table]:
    """Return the storms, and what would change them, as tables of the page."""
    return [storms_table(result), *([variants_table(result)] if result.variants else [])]


def storms_table(result: StormResult) -> Table:
    """Return the storms of the search as a table of the page."""
    return figures_table("Storms, in their order", HEAD, rows(result))


def variants_table(result: StormResult) -> Table:
    """Return the variants of a storm as a table of the page."""
    caption = f"Storms of {result.variants[0].clients:,} clients, in random order"
    return figures_table(caption, VARIANTS_HEAD, variant_rows(result))


def sentences(result: StormResult) -> dict[str, str]:
    """Return label and sentence of what is said below the storms; empty ones are left out."""
    said = {
        "errors": "; ".join(_causes(result)),
        "changes": "; ".join(each.sentence for each in result.variants if each.sentence),
        "not tried": f"for want of time: {'; '.join(result.untried)}" if result.untried else "",
    }
    return {label: text for label, text in said.items() if text}


def _causes(result: StormResult) -> Iterator[str]:
    """Yield the errors by cause over all storms, the most frequent first."""
    counts: dict[tuple[str, str], int] = {}
    for point in result.points:
        for each in point.errors:
            key = (each.sqlstate, each.message)
            counts[key] = counts.get(key, 0) + each.count
    most = sorted(counts.items(), key=lambda item: -item[1])[:CAUSES_MAX]
    for (sqlstate, message), count in most:
        yield f"{count:,} × {sqlstate}: {message}"


def measured_rows(run: RunFile) -> list[tuple[int, float | None]]:
    """Return the most connections and p50 of connecting in ms of each storm of a search that did
    not end."""
    found = []
    for each in run.slices(SliceKind.STORM):
        if each.ended_ms is not None:
            rows = run.group_intervals([each.id])
            most = max((row.connections for row in rows), default=0)
            p50_ns = Distribution.of(run.histogram("total", [each.id])).percentiles_ns[50.0]
            found.append((most, None if p50_ns is None else round(p50_ns / 1e6, 3)))
    return found


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _range(each: Variant) -> str:
    if each.steady_s_min is None or each.steady_s_max is None:
        return ""
    return f"{each.steady_s_min:.1f} – {each.steady_s_max:.1f}"
