"""The result of a search: the curve, the answer in a sentence, the law fitted, what ends it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgdyno import numbers
from pgdyno.diagnose import Diagnosis
from pgdyno.knee._rates import RateSearch
from pgdyno.results.knee import Capacity, CurvePoint, Highest, Knee, Law
from pgdyno.search.curve import (
    Curve,
    Hold,
    bounded,
    interval_of,
    is_lower_bound,
    latency_figures,
    limit_verdict,
    mean_tps,
    p99_ms_of,
    rounded_bounds,
    sustained,
)
from pgdyno.search.points import Aim, PointSlice, is_steady
from pgdyno.search.sizes import DRAWS, KNEE_SHARE, Found
from pgdyno.stats import knee as fitted_law
from pgdyno.stats.scaling import law_bounds

LAW_ERROR_MAX = 0.10
"""Misfit above which a curve is not said to follow the law: as much as one slice may differ from
the next."""


def capacity_of_clients(
    group: str,
    found: Found | None,
    curve: Curve,
    hold: Hold | None,
    *,
    limit: Diagnosis | None,
    why_most: str,
    out_of_time: bool,
    elapsed_s: float,
) -> Capacity:
    """Return the result of a search for clients."""
    knee = _knee_of_clients(found, curve) if found and found.saturated else None
    points = _clients_points(found, curve) if found else ()
    return Capacity(
        varied="clients",
        group=group,
        slo=(),
        knee=knee,
        sentence=bounded(_clients_sentence(found, knee, why_most), limit),
        lower_bound=is_lower_bound(limit),
        highest=None if found is None else _highest(found),
        tried_max=max(curve.points, default=0),
        curve=points,
        law=_law(found) if found else None,
        limit=limit_verdict(limit),
        sustained=sustained(hold, {each.clients: each.tps for each in points}),
        out_of_time=out_of_time,
        elapsed_s=round(elapsed_s, 1),
    )


def capacity_of_rates(
    group: str,
    aim: Aim,
    search: RateSearch,
    curve: Curve,
    hold: Hold | None,
    *,
    limit: Diagnosis | None,
    elapsed_s: float,
) -> Capacity:
    """Return the result of a search for a rate."""
    knee = None if search.met is None else _knee_of_rate(search.met, curve)
    points = tuple(_rate_point(aim, rate, curve.points[rate]) for rate in sorted(curve.points))
    return Capacity(
        varied="rate",
        group=group,
        slo=tuple(str(each) for each in aim.limits),
        knee=knee,
        sentence=bounded(_rate_sentence(aim, search, knee, curve), limit),
        lower_bound=is_lower_bound(limit),
        highest=None,
        tried_max=max(curve.points, default=0),
        curve=points,
        law=None,
        limit=limit_verdict(limit),
        sustained=sustained(hold, {each.rate_tps or 0.0: each.tps for each in points}),
        out_of_time=search.next_rate() is not None or (knee is not None and hold is None),
        elapsed_s=round(elapsed_s, 1),
    )


def _knee_of_clients(found: Found, curve: Curve) -> Knee:
    low, high = found.knee_bounds
    place = found.levels.points.index(found.knee)
    return Knee(
        clients=found.knee,
        tps=round(found.level(found.knee), 2),
        ci95=rounded_bounds(found.levels.interval(place)),
        p99_ms=p99_ms_of(curve.points[found.knee]),
        clients_ci95=(low, high),
    )


def _knee_of_rate(rate: float, curve: Curve) -> Knee:
    slices = curve.points[rate]
    return Knee(
        rate_tps=rate,
        tps=round(mean_tps(slices), 2),
        ci95=interval_of([each.tps for each in slices]),
        p99_ms=p99_ms_of(slices),
    )


def _highest(found: Found) -> Highest:
    return Highest(
        clients_min=min(found.top), clients_max=max(found.top), tps=round(found.top_tps, 2)
    )


def _clients_points(found: Found, curve: Curve) -> tuple[CurvePoint, ...]:
    return tuple(_clients_point(found, int(n), curve.points[n]) for n in sorted(curve.points))


def _clients_point(found: Found, clients: int, slices: Sequence[PointSlice]) -> CurvePoint:
    known = clients in found.levels.points
    place = found.levels.points.index(clients) if known else 0
    steady = is_steady(slices)
    return CurvePoint(
        clients=clients,
        tps=round(found.levels.value(place) if known else mean_tps(slices), 2),
        ci95=rounded_bounds(found.levels.interval(place)) if known else None,
        **latency_figures(slices),
        slices=len(slices),
        seconds=round(sum(each.seconds for each in slices), 2),
        steady=steady,
        why="throughput drifted within its slices" if steady is False else "",
    )


def _rate_point(aim: Aim, rate: float, slices: Sequence[PointSlice]) -> CurvePoint:
    return CurvePoint(
        clients=aim.clients,
        rate_tps=rate,
        tps=round(mean_tps(slices), 2),
        ci95=interval_of([each.tps for each in slices]),
        **latency_figures(slices),
        slices=len(slices),
        seconds=round(sum(each.seconds for each in slices), 2),
        met=sum(not each.why for each in slices),
        steady=is_steady(slices),
        why=_why(slices),
    )


def _why(slices: Sequence[PointSlice]) -> str:
    """Return why the last slice that did not meet the limits did not; '' if all did."""
    return next((each.why for each in reversed(slices) if each.why), "")


def _clients_sentence(found: Found | None, knee: Knee | None, why_most: str) -> str:
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
    head = (
        f"the knee is at {numbers.counted(found.knee, 'client', 'clients')}{_bounds_words(found)}"
    )
    level = f"{numbers.tps(knee.tps)} tps{latency}"
    if found.top == (found.knee,):
        return f"{head}, which have the highest throughput: {level}"
    share = numbers.percent(KNEE_SHARE)
    head = f"{head}, the fewest with at least {share} of the highest throughput: {level}"
    if found.knee in found.top:
        return f"{head}; the noise does not tell {_top_words(found)} apart"
    return f"{head}; the highest, {numbers.tps(found.top_tps)} tps, has {_top_words(found)}"


def _bounds_words(found: Found) -> str:
    low, high = found.knee_bounds
    return "" if low == high else f" (95 % interval {low:,} to {high:,})"


def _top_words(found: Found) -> str:
    low, high = min(found.top), max(found.top)
    return (
        numbers.counted(low, "client", "clients") if low == high else f"{low:,} to {high:,} clients"
    )


def _rate_sentence(aim: Aim, search: RateSearch, knee: Knee | None, curve: Curve) -> str:
    limits = " and ".join(str(each) for each in aim.limits)
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


def _law(found: Found) -> Law:
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
