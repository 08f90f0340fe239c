"""The result of a search: the curve, the answer in a sentence, the law fitted, the limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgdyno import numbers
from pgdyno.results.knee import Capacity, CurvePoint, Highest, Knee, Law
from pgdyno.search._bisection import RateSearch
from pgdyno.search._curve import (
    Curve,
    Searched,
    bounded,
    bounds_words,
    level_of_rate,
    level_of_size,
    limits_words,
    p99_ms_of,
    point_figures,
    rank_words,
    rounded_bounds,
    search_figures,
    sustained,
    top_words,
    unsteady_words,
)
from pgdyno.search._points import PointSlice
from pgdyno.search._sizes import DRAWS, KneeEstimate
from pgdyno.stats import knee as fitted_law
from pgdyno.stats.scaling import law_bounds

LAW_ERROR_MAX = 0.10
"""Misfit above which a curve is not said to follow the law: as much as one slice may differ from
the next."""


def capacity_of_clients(
    searched: Searched, found: KneeEstimate | None, *, why_most: str
) -> Capacity:
    """Return the result of a search for clients."""
    knee = _knee_of_clients(found, searched.curve) if found and found.saturated else None
    points = _clients_points(found, searched.curve) if found else ()
    return Capacity(
        varied="clients",
        knee=knee,
        sentence=bounded(_clients_sentence(found, knee, why_most), searched.limit),
        highest=None if found is None else _highest(found),
        curve=points,
        law=_law(found) if found else None,
        sustained=sustained(searched.hold, {each.clients: each.tps for each in points}),
        **search_figures(searched),
    )


def capacity_of_rates(searched: Searched, search: RateSearch, *, clients: int) -> Capacity:
    """Return the result of a search for a rate, at which so many clients send."""
    curve = searched.curve
    knee = None if search.met is None else _knee_of_rate(search.met, curve)
    points = tuple(_rate_point(clients, rate, curve.points[rate]) for rate in sorted(curve.points))
    return Capacity(
        varied="rate",
        knee=knee,
        sentence=bounded(_rate_sentence(searched, search, knee), searched.limit),
        highest=None,
        curve=points,
        law=None,
        sustained=sustained(searched.hold, {each.rate_tps or 0.0: each.tps for each in points}),
        **search_figures(searched),
    )


def _knee_of_clients(found: KneeEstimate, curve: Curve) -> Knee:
    level = level_of_size(found, curve, found.knee)
    return Knee(
        clients=found.knee,
        tps=level.tps,
        ci95=level.ci95,
        p99_ms=p99_ms_of(curve.points[found.knee]),
        clients_ci95=found.knee_bounds,
    )


def _knee_of_rate(rate: float, curve: Curve) -> Knee:
    slices = curve.points[rate]
    level = level_of_rate(slices)
    return Knee(rate_tps=rate, tps=level.tps, ci95=level.ci95, p99_ms=p99_ms_of(slices))


def _highest(found: KneeEstimate) -> Highest:
    return Highest(
        clients_min=min(found.top), clients_max=max(found.top), tps=round(found.top_tps, 2)
    )


def _clients_points(found: KneeEstimate, curve: Curve) -> tuple[CurvePoint, ...]:
    return tuple(_clients_point(found, curve, int(clients)) for clients in sorted(curve.points))


def _clients_point(found: KneeEstimate, curve: Curve, clients: int) -> CurvePoint:
    figures = point_figures(level_of_size(found, curve, clients), curve.points[clients])
    return CurvePoint(clients=clients, **figures, why=unsteady_words(figures["steady"]))


def _rate_point(clients: int, rate: float, slices: Sequence[PointSlice]) -> CurvePoint:
    return CurvePoint(
        clients=clients,
        rate_tps=rate,
        **point_figures(level_of_rate(slices), slices),
        met=sum(not each.why for each in slices),
        why=_why(slices),
    )


def _why(slices: Sequence[PointSlice]) -> str:
    """Return why the last slice that did not meet the limits did not; '' if all did."""
    return next((each.why for each in reversed(slices) if each.why), "")


def _clients_sentence(found: KneeEstimate | None, knee: Knee | None, why_most: str) -> str:
    if found is None:
        return f"nothing was measured: {why_most}"
    if knee is None:
        most = found.levels.points[-1]
        grows = "still grows" if min(found.top) > most / 2 else "may still grow"
        return (
            f"no knee up to {numbers.counted(most, 'client', 'clients')}: throughput {grows},"
            f" {numbers.tps(found.level(most))} tps with {most:,}; more were not tried: {why_most}"
        )
    latency = "" if knee.p99_ms is None else f", p99 {numbers.significant(knee.p99_ms)} ms"
    clients = numbers.counted(found.knee, "client", "clients")
    rank = rank_words(found, _top_words(found), f"{numbers.tps(knee.tps)} tps{latency}")
    return f"the knee is at {clients}{bounds_words(found.knee_bounds)}{rank}"


def _top_words(found: KneeEstimate) -> str:
    return "1 client" if found.top == (1,) else f"{top_words(found)} clients"


def _rate_sentence(searched: Searched, search: RateSearch, knee: Knee | None) -> str:
    curve, limits = searched.curve, limits_words(searched)
    if not curve.points:
        return "nothing was measured"
    if knee is None or knee.rate_tps is None:
        lowest = min(curve.points)
        why = _why(curve.points[lowest])
        return (
            f"no rate meets {limits}: at {_rate(lowest)}, the lowest rate that this budget can"
            f" judge: {why}"
        )
    met = _met_words(curve.points[knee.rate_tps], knee.p99_ms)
    head = f"up to {_rate(knee.rate_tps)} meet {limits}{met}"
    high = search.too_high
    if high is None:
        return f"{head}; that is the highest rate tried, so the limit lies above it"
    sure = "" if search.confirmed else "; not confirmed, because the time budget ended"
    why = _why(curve.points.get(high, [])) or "its slices are void"
    return f"{head}; at {_rate(high)}: {why}{_failed_below(curve, knee.rate_tps)}{sure}"


def _met_words(slices: Sequence[PointSlice], p99_ms: float | None) -> str:
    """Say in how many slices a rate was met, if not in all, and p99 over all of them."""
    met = sum(not each.why for each in slices)
    p99 = "" if p99_ms is None else f"p99 {numbers.significant(p99_ms)} ms"
    if met == len(slices):
        return f", with {p99}" if p99 else ""
    return f" in {met} of {len(slices)} slices" + (f" ({p99} over all of these)" if p99 else "")


def _failed_below(curve: Curve, rate: float) -> str:
    """Return how many slices failed although their rate was met: the rate alone does not explain
    these."""
    slices = [each for point, all_ in curve.points.items() if point <= rate for each in all_]
    failed = sum(bool(each.why) for each in slices)
    return (
        f"; {failed} of {len(slices)} slices up to the rate that is met failed as well"
        if failed
        else ""
    )


def _rate(rate: float) -> str:
    return f"{numbers.tps(rate)} transactions per second"


def _law(found: KneeEstimate) -> Law:
    """Return the law fitted to the levels, with the intervals of its parameters."""
    measured = found.levels
    values = [measured.value(place) for place in range(len(measured.points))]
    fit = fitted_law(measured.points, values)
    if fit is None:
        return _no_law(len(measured.points))
    follows = fit.relative_error <= LAW_ERROR_MAX
    bounds = (
        law_bounds(measured.points, np.exp(measured.draws(DRAWS, seed=1)))
        if measured.freedom
        else None
    )
    return Law(
        follows=follows,
        sentence=_law_sentence(follows, fit.relative_error),
        error=round(fit.relative_error, 4),
        single_tps=round(fit.single_tps, 2),
        single_tps_ci95=rounded_bounds(bounds.single_tps) if bounds else None,
        contention=_four(fit.contention),
        contention_ci95=_fours(bounds.contention) if bounds else None,
        coherence=_four(fit.coherence),
        coherence_ci95=_fours(bounds.coherence) if bounds else None,
        clients_at_knee=_finite(fit.clients_at_knee),
        clients_at_peak=_finite(fit.clients_at_peak),
    )


def _no_law(points: int) -> Law:
    why = (
        "not fitted: at least four numbers of clients are needed"
        if points < 4
        else ("the curve does not follow the Universal Scalability Law")
    )
    nothing = dict.fromkeys(
        ("error", "single_tps", "single_tps_ci95", "contention", "contention_ci95", "coherence",
         "coherence_ci95", "clients_at_knee", "clients_at_peak"))  # fmt: skip
    return Law(follows=False, sentence=why, **nothing)


def _law_sentence(follows: bool, error: float) -> str:
    misfit = numbers.percent(error)
    if follows:
        return f"the curve follows the Universal Scalability Law within {misfit}"
    return (
        f"the curve does not follow the Universal Scalability Law: the best fit misses it by"
        f" {misfit}, more than {numbers.percent(LAW_ERROR_MAX)}"
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 2)


def _four(value: float) -> float:
    return float(f"{value:.4g}")


def _fours(bounds: tuple[float, float]) -> tuple[float, float]:
    return _four(bounds[0]), _four(bounds[1])
