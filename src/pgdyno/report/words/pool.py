"""The search for a pool size in words: its curve, what limits it, what lies beyond, settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.record import Distribution, RunFile, SliceKind, throughput_tps
from pgdyno.report.words.findings import verdict_words
from pgdyno.report.words.tables import Table, figures_table
from pgdyno.spec import Change
from pgdyno.spec.pooler import TITLES

if TYPE_CHECKING:
    from pgdyno.results.pool import ApplicationPools, Layer, PoolResult, PoolSettings, SizePoint

HEAD = ("size", "tps", "95 % interval", "p50 ms", "p99 ms", "on its connection, ms", "slices",
        "note")  # fmt: skip


def rows(result: Layer, slo: Sequence[str] = ()) -> list[list[str]]:
    """Return a row for each point of the curve; ``slo``: the limits."""
    return [
        [
            f"{point.size:,}",
            numbers.tps(point.tps),
            _range(point.ci95, numbers.tps),
            numbers.ms_figure(point.p50_ms),
            numbers.ms_figure(point.p99_ms),
            numbers.ms_figure(point.service_ms),
            str(point.slices),
            _note(result, point, slo),
        ]
        for point in result.curve
    ]


def layer_rows(result: PoolResult) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each layer's title, '' where there is only one, with its rows."""
    if result.application is None:
        yield "", rows(result, result.slo)
        return
    yield f"the pool of {TITLES[result.pooler]}", rows(result, result.slo)
    yield application_title(result.application), rows(result.application, result.slo)


def application_title(application: ApplicationPools) -> str:
    """Return the name of the pools in front of the pooler."""
    count = application.instances
    return "the application's pool" if count == 1 else f"the pool of each of {count:,} instances"


def _size_of(change: Change) -> int | None:
    """Return the pool size of a change, the clients' or the pooler's."""
    of_pooler = (int(v) for key, v in change.spec.items() if key.startswith("pooler."))
    return next((size for size in change.pool_max.values() if size), next(of_pooler, None))


def curve_table(result: Layer, slo: Sequence[str] = ()) -> Table:
    """Return the curve as a table of the page."""
    return figures_table("Throughput and response time by pool size", HEAD, rows(result, slo))


def _range(bounds: tuple[float, float] | None, form: Callable[[float], str]) -> str:
    return "" if bounds is None else f"{form(bounds[0])} – {form(bounds[1])}"


def _note(result: Layer, point: SizePoint, slo: Sequence[str]) -> str:
    parts = []
    if result.best is not None and result.best.size == point.size:
        parts.append("best")
    highest = result.highest
    if highest and point.met and highest.size_min <= point.size <= highest.size_max:
        parts.append("highest")
    if not point.met:
        parts.append("limit not met" if slo else "fails")
    if point.steady is False:
        parts.append("not steady")
    return ", ".join(parts)


def sentences(result: PoolResult) -> dict[str, str]:
    """Return label and sentence of what is said below the curve; empty ones are left out."""
    arithmetic, application = result.arithmetic, result.application
    said = {
        "application": application.sentence if application else "",
        "limit": verdict_words(result.limit),
        "larger": verdict_words(result.limit_beyond) if result.best else "",
        "larger app.": verdict_words(application.limit_beyond)
        if application and application.best and not application.coupled
        else "",
        "sustained": result.sustained.sentence if result.sustained else "not measured",
        "unfinished": "the time budget ended before all sizes that decide were measured often"
        " enough"
        if result.out_of_time
        else "",
        "alternative": _in_place_words(result),
        "instances": arithmetic.sentence
        if arithmetic and (arithmetic.instances > 1 or application)
        else "",
    }
    return {label: text for label, text in said.items() if text}


def _in_place_words(result: PoolResult) -> str:
    """Return the settings of the pool libraries, where a pooler was measured."""
    if result.pooler == "none" or not result.settings or result.application:
        return ""
    libraries = numbers.listed([each.of for each in result.settings[1:]], most=None)
    return (
        f"the settings of {libraries} are those of a pool in place of the pooler, with as many"
        " connections, which was not measured; in front of it they may have more"
    )


def settings_words(each: PoolSettings) -> str:
    """Return settings such as ``maxTotal = 8, maxIdle = 8``."""
    return ", ".join(f"{name} = {value}" for name, value in each.settings.items())


def settings_table(result: PoolResult) -> Table | None:
    """Return the settings as a table of the page; None without any."""
    found = [[each.of, settings_words(each), each.note] for each in result.settings]
    return Table("Settings for this size", ("for", "settings", "note"), found) if found else None


def measured_rows(run: RunFile) -> list[tuple[int, float, float | None]]:
    """Return size, throughput and p99 in ms of each slice of a search without a result, in the
    order in which they were measured."""
    found = []
    for each in run.slices(SliceKind.POINT):
        size = _size_of(Change.from_json(each.change))
        if each.void is None and each.ended_ms is not None and size is not None:
            response = Distribution.of(run.histogram("response", [each.id]))
            p99_ns = response.percentiles_ns[99.0]
            p99_ms = None if p99_ns is None else round(p99_ns / 1e6, 3)
            found.append((size, throughput_tps(run, [each.id]), p99_ms))
    return found
