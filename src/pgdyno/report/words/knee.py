"""The capacity of a server in words: its curve, the law, what ends it, and whether it lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.record import Distribution, RunFile, SliceKind, throughput_tps
from pgdyno.report.words.findings import verdict_words
from pgdyno.report.words.tables import Table, figures_table
from pgdyno.spec import Change

if TYPE_CHECKING:
    from pgdyno.results.knee import Capacity, CurvePoint, Law


def head(capacity: Capacity) -> list[str]:
    """Return the names of the columns of :func:`rows`."""
    first = "clients" if capacity.varied == "clients" else "rate/s"
    return [first, "tps", "95 % interval", "p50 ms", "p99 ms", "its 95 %", "slices", "note"]


def rows(capacity: Capacity) -> list[list[str]]:
    """Return a row for each point of the curve."""
    return [
        [
            _first(point),
            numbers.tps(point.tps),
            _range(point.ci95, numbers.tps),
            numbers.ms_figure(point.p50_ms),
            numbers.ms_figure(point.p99_ms),
            _range(point.p99_ms_ci95, numbers.ms_figure),
            str(point.slices),
            _note(capacity, point),
        ]
        for point in capacity.curve
    ]


def measured_rows(run: RunFile) -> list[tuple[int | None, float | None, float, float | None]]:
    """Return clients, rate, throughput and p99 in ms of each slice of a search without a result, in
    the order in which they were measured; the clients or the rate that did not vary are None."""
    groups = run.run.spec.get("clients") or []
    arrivals = {group["name"]: group.get("arrival") for group in groups}
    rates = {name: each["rate"] for name, each in arrivals.items() if isinstance(each, Mapping)}
    found = []
    for each in run.slices(SliceKind.POINT):
        change = Change.from_json(each.change)
        if each.void is None and each.ended_ms is not None:
            response = Distribution.of(run.histogram("response", [each.id]))
            p99_ns = response.percentiles_ns[99.0]
            rate = next(
                (rates[name] * by for name, by in change.rate.items() if name in rates), None
            )
            clients = next(iter(change.clients.values()), None) if rate is None else None
            p99_ms = None if p99_ns is None else round(p99_ns / 1e6, 3)
            found.append((clients, rate, throughput_tps(run, [each.id]), p99_ms))
    return found


def curve_table(capacity: Capacity) -> Table:
    """Return the curve as a table of the page."""
    noun = "number of clients" if capacity.varied == "clients" else "rate"
    return figures_table(f"Throughput and response time by {noun}", head(capacity), rows(capacity))


def _first(point: CurvePoint) -> str:
    return f"{point.clients:,}" if point.rate_tps is None else numbers.tps(point.rate_tps)


def _range(bounds: tuple[float, float] | None, form: Callable[[float], str]) -> str:
    return "" if bounds is None else f"{form(bounds[0])} – {form(bounds[1])}"


def _note(capacity: Capacity, point: CurvePoint) -> str:
    parts = []
    if is_knee(capacity, point):
        parts.append("knee" if capacity.varied == "clients" else "highest")
    highest = capacity.highest
    if highest and highest.clients_min <= point.clients <= highest.clients_max:
        parts.append("highest")
    if point.met is not None:
        parts.append(f"met {point.met} of {point.slices}")
    if point.steady is False:
        parts.append("not steady")
    return ", ".join(parts)


def is_knee(capacity: Capacity, point: CurvePoint) -> bool:
    """Return whether a point of the curve is the answer."""
    knee = capacity.knee
    if knee is None:
        return False
    if knee.rate_tps is not None:
        return knee.rate_tps == point.rate_tps
    return knee.clients == point.clients


def law_words(law: Law) -> str:
    """Return the law fitted to the curve, with the intervals of its parameters."""
    if not law.follows or law.single_tps is None:
        return law.sentence
    knee, peak = numbers.significant(law.clients_at_knee), law.clients_at_peak
    at = [
        "it levels off" if peak is None else f"its peak is at {numbers.significant(peak)} clients"
    ]
    if law.clients_at_knee is not None:
        at.append(f"growth in proportion would reach its highest throughput with {knee}")
    parts = [
        f"λ {numbers.tps(law.single_tps)} tps of one client{_in(law.single_tps_ci95, numbers.tps)}",
        f"σ {_parameter(law.contention)} serialized{_in(law.contention_ci95, _parameter)}",
        f"κ {_parameter(law.coherence)} per pair{_in(law.coherence_ci95, _parameter)}",
    ]
    return f"{law.sentence}: {', '.join(parts)}; {', '.join(at)}"


def _in(bounds: tuple[float, float] | None, form: Callable[[float], str]) -> str:
    return "" if bounds is None else f" [{form(bounds[0])}, {form(bounds[1])}]"


def _parameter(value: float | None) -> str:
    return "0" if value == 0 else numbers.significant(value, 2)


def sentences(capacity: Capacity) -> dict[str, str]:
    """Return label and sentence of what is said below the curve; empty ones are left out."""
    said = {
        "limit": verdict_words(capacity.limit),
        "sustained": capacity.sustained.sentence if capacity.sustained else "not measured",
        "law": law_words(capacity.law) if capacity.law else "",
        "unfinished": _unfinished(capacity),
    }
    return {label: text for label, text in said.items() if text}


def _unfinished(capacity: Capacity) -> str:
    if not capacity.out_of_time:
        return ""
    return "the time budget ended before all points that decide were measured often enough"
