"""The result of a search for a pool size: the curve, the answer in a sentence, settings."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pgdyno import numbers
from pgdyno.diagnose import Diagnosis
from pgdyno.pool._beyond import beyond_best, limit_beyond
from pgdyno.pool._settings import arithmetic, library_settings, of_instances, pooler_settings
from pgdyno.results.knee import Sustained
from pgdyno.results.pool import (
    ApplicationPools,
    Arithmetic,
    BestSize,
    Beyond,
    HighestOfSizes,
    PoolSettings,
    SizePoint,
)
from pgdyno.search.curve import (
    Curve,
    Hold,
    is_lower_bound,
    latency_figures,
    limit_verdict,
    mean_tps,
    merged_response,
    on_connection_ms,
    p99_ms_of,
    rounded_bounds,
    sustained,
)
from pgdyno.search.points import PointSlice, is_steady
from pgdyno.search.sizes import KNEE_SHARE, Found
from pgdyno.search.slo import Limit
from pgdyno.spec.pooler import TITLES, PoolerSpec


class Searched(Struct, frozen=True):
    """A search that has ended: what was measured."""

    group: str
    clients: int
    pooler: PoolerSpec
    rate_tps: float | None
    limits: tuple[Limit, ...]
    instances: int
    found: Found | None
    curve: Curve
    hold: Hold | None
    best: Diagnosis | None
    """Of the slices at the best size, or where no size meets the limits, at the highest
    throughput."""
    larger: Diagnosis | None
    """Of the slices at the largest size."""
    why_no_larger: str
    out_of_time: bool
    elapsed_s: float
    pools: int = 1
    """Pools that have the size, each: the instances of the application."""
    application: Searched | None = None
    """The pools of the application in front of the pooler, whose size this is then."""
    coupled: bool = False
    """True if the pooler's size was changed with theirs: it is their sum."""


def pool_figures(searched: Searched) -> dict[str, object]:
    """Return the members of the result that are its own."""
    found, curve = searched.found, searched.curve
    best = _best(searched) if found and found.meets else None
    beyond = _beyond(searched) if best else None
    application = _application(searched)
    each = _arithmetic(searched, best, application)
    return {
        "pooler": searched.pooler.kind,
        "group": searched.group,
        "clients": searched.clients,
        "rate_tps": searched.rate_tps,
        "slo": tuple(str(limit) for limit in searched.limits),
        "best": best,
        "sentence": _sentence(searched, best) + _doubt(searched.best),
        "lower_bound": is_lower_bound(searched.best),
        "highest": _highest(found),
        "tried_max": round(max(curve.points, default=0)),
        "curve": tuple(_point(searched, round(n)) for n in sorted(curve.points)) if found else (),
        "limit": limit_verdict(searched.best),
        "limit_beyond": limit_beyond(beyond, searched.larger, searched.why_no_larger),
        "beyond": beyond,
        "settings": _settings(searched, best, application, each),
        "arithmetic": each,
        "application": application,
        "sustained": _sustained(searched),
        "out_of_time": searched.out_of_time,
        "elapsed_s": round(searched.elapsed_s, 1),
    }


def _beyond(searched: Searched) -> Beyond | None:
    assert searched.found is not None
    return beyond_best(
        searched.found, searched.curve, searched.best, searched.larger, searched.pools
    )


def _application(searched: Searched) -> ApplicationPools | None:
    """Return what was found of the pools in front of the pooler."""
    layer = searched.application
    if layer is None:
        return None
    figures = pool_figures(layer)
    best = _best(layer) if layer.found and layer.found.meets else None
    named = ("highest", "curve", "limit_beyond", "beyond")
    return ApplicationPools.model_validate(
        {
            **{name: figures[name] for name in named},
            "sentence": _sentence(layer, best),
            "instances": layer.pools,
            "best": best,
            "total": best.size * layer.pools if best else None,
            "pooler_size": searched.found.knee if searched.found else 0,
            "coupled": searched.coupled,
        }
    )


def _arithmetic(
    searched: Searched, best: BestSize | None, application: ApplicationPools | None
) -> Arithmetic | None:
    """Return the sum over the instances of the application; None if no size is best."""
    if best is None:
        return None
    if application is not None:
        if application.best is None:
            return None
        size, shared = application.best.size, None if searched.coupled else best.size
        return of_instances(size, application.instances, searched.pooler, shared)
    if searched.pools > 1:
        return of_instances(best.size, searched.pools, searched.pooler, None)
    return arithmetic(best.size, searched.instances)


def _settings(
    searched: Searched,
    best: BestSize | None,
    application: ApplicationPools | None,
    each: Arithmetic | None,
) -> tuple[PoolSettings, ...]:
    """Return the settings of the pooler, if there is one, and of the pool libraries."""
    if best is None:
        return ()
    libraries = library_settings(each.size_each) if each else ()
    if not searched.pooler.in_use:
        return libraries
    layers = application is not None
    clients = each.total if layers and each else searched.clients
    return (pooler_settings(searched.pooler, best.size, clients, application=layers), *libraries)


def _sustained(searched: Searched) -> Sustained | None:
    """Return what the long slice says, which is of both layers where there are two."""
    layer = searched.application or searched
    return sustained(layer.hold, {size: _tps(layer, round(size)) for size in layer.curve.points})


def _best(searched: Searched) -> BestSize:
    found, curve = searched.found, searched.curve
    assert found is not None
    slices = curve.points[found.knee]
    return BestSize(
        size=found.knee,
        size_ci95=found.knee_bounds,
        tps=round(found.level(found.knee), 2),
        ci95=rounded_bounds(found.levels.interval(found.levels.points.index(found.knee))),
        p99_ms=p99_ms_of(slices),
        service_ms=round(on_connection_ms(slices, searched.pools * found.knee), 3),
    )


def _highest(found: Found | None) -> HighestOfSizes | None:
    if found is None:
        return None
    tps = round(found.top_tps, 2)
    return HighestOfSizes(size_min=min(found.top), size_max=max(found.top), tps=tps)


def _point(searched: Searched, size: int) -> SizePoint:
    found, slices = searched.found, searched.curve.points[size]
    known = found is not None and size in found.levels.points
    steady, why = is_steady(slices), _why(searched.limits, slices)
    place = found.levels.points.index(size) if found and known else 0
    return SizePoint(
        size=size,
        tps=_tps(searched, size),
        ci95=rounded_bounds(found.levels.interval(place)) if found and known else None,
        **latency_figures(slices),
        service_ms=round(on_connection_ms(slices, searched.pools * size), 3),
        slices=len(slices),
        seconds=round(sum(each.seconds for each in slices), 2),
        met=not why,
        steady=steady,
        why=why or ("throughput drifted within its slices" if steady is False else ""),
    )


def _tps(searched: Searched, size: int) -> float:
    """Return the throughput of a size, as the curve has it."""
    found = searched.found
    if found is not None and size in found.levels.points:
        return round(found.level(size), 2)
    return round(mean_tps(searched.curve.points[size]), 2)


def _why(limits: Sequence[Limit], slices: Sequence[PointSlice]) -> str:
    """Return why the slices of a size together do not meet the limits; '' if they do."""
    response = merged_response(slices)
    exceeded = [each.exceeded_words(response) for each in limits if not each.is_met(response)]
    return slices[-1].failing or " and ".join(exceeded)


def _sentence(searched: Searched, best: BestSize | None) -> str:
    found = searched.found
    if found is None:
        return f"nothing was measured: {searched.why_no_larger}"
    if best is None:
        return _none_meets(searched, found)
    latency = "" if best.p99_ms is None else f", p99 {numbers.significant(best.p99_ms)} ms"
    level = f"{numbers.tps(best.tps)} tps{latency}, with {searched.clients:,} clients"
    size = numbers.counted(best.size, "connection", "connections")
    head = f"{_pool_words(searched)} has {size}{_bounds_words(best)}"
    limits = _limits_words(searched)
    more = _more_words(searched, found)
    if found.top == (found.knee,):
        return f"{head}, which {_have(best)} the highest throughput{limits}: {level}{more}"
    share = numbers.percent(KNEE_SHARE)
    head = f"{head}, the fewest with at least {share} of the highest throughput{limits}: {level}"
    if found.knee in found.top:
        return f"{head}; the noise does not tell {_top_words(found)} apart{more}"
    highest = f"{numbers.tps(found.top_tps)} tps, has a pool of {_top_words(found)}"
    return f"{head}; the highest, {highest}{more}"


def _pool_words(searched: Searched) -> str:
    if searched.application is not None:
        return f"the best pool of {TITLES[searched.pooler.kind]}"
    return "the best pool" if searched.pools == 1 else "the best pool of each instance"


def _more_words(searched: Searched, found: Found) -> str:
    """Return that larger sizes may have more throughput; '' if not."""
    if found.saturated:
        return ""
    largest = f"{found.levels.points[-1]:,}"
    return (
        f"; throughput may still grow beyond {largest}, and larger sizes were not tried:"
        f" {searched.why_no_larger}"
    )


def _doubt(diagnosis: Diagnosis | None) -> str:
    """Return that the limit is not the server's own; '' if it is."""
    if not is_lower_bound(diagnosis):
        return ""
    return "; other load held the server back, and without it another size may be best"


def _have(best: BestSize) -> str:
    return "has" if best.size == 1 else "have"


def _limits_words(searched: Searched) -> str:
    limits = " and ".join(str(each) for each in searched.limits)
    return f" of the sizes that meet {limits}" if limits else ""


def _bounds_words(best: BestSize) -> str:
    low, high = best.size_ci95
    return "" if low == high else f" (95 % interval {low:,} to {high:,})"


def _top_words(found: Found) -> str:
    low, high = min(found.top), max(found.top)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _none_meets(searched: Searched, found: Found) -> str:
    """Return that no size meets the limits, and what a queue of so many clients takes at least."""
    limits = " and ".join(str(each) for each in searched.limits) or "the limit of failures"
    size = max(found.top, key=found.level)
    tps, why = found.level(size), _why(searched.limits, searched.curve.points[size])
    if searched.rate_tps is not None:
        more = f"the clients send {numbers.tps(searched.rate_tps)} transactions per second"
    else:
        more = (
            f"{searched.clients:,} clients at {numbers.tps(tps)} tps take"
            f" {numbers.significant(1000 * searched.clients / tps)} ms each on average, in the"
            " queue for a connection or in the server; fewer clients (-c) take less"
        )
    return f"no size meets {limits}: with {size:,}, at the highest throughput, {why}; {more}"
