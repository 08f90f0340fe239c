"""The result of a search for a pool size: the curve, the answer in a sentence, settings."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno import numbers
from pgdyno.diagnose import Diagnosis
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
from pgdyno.search._curve import (
    Searched,
    bounds_words,
    is_lower_bound,
    level_of_size,
    limits_words,
    merged_response,
    on_connection_ms,
    p99_ms_of,
    point_figures,
    rank_words,
    search_figures,
    sustained,
    top_words,
    unsteady_words,
)
from pgdyno.search._points import PointSlice
from pgdyno.search._pool_beyond import beyond_best, limit_beyond
from pgdyno.search._pool_settings import arithmetic, library_settings, of_instances, pooler_settings
from pgdyno.search._sizes import KneeEstimate
from pgdyno.search.slo import Limit
from pgdyno.spec.pooler import TITLES, PoolerSpec


class PoolSearched(Searched, frozen=True, kw_only=True):
    """A search for a pool size that has ended. Its limit is that of the best size, or where no size
    meets the limits, of the highest throughput."""

    clients: int
    pooler: PoolerSpec
    rate_tps: float | None
    instances: int
    found: KneeEstimate | None
    larger: Diagnosis | None
    """Of the slices at the largest size."""
    why_no_larger: str
    pools: int = 1
    """Pools that have the size, each: the instances of the application."""
    application: PoolSearched | None = None
    """The pools of the application in front of the pooler, whose size this is then."""
    coupled: bool = False
    """True if the pooler's size was changed with theirs: it is their sum."""


def pool_figures(searched: PoolSearched) -> dict[str, object]:
    """Return the members of the result that are its own."""
    found, curve = searched.found, searched.curve
    best = _best(searched) if found and found.meets else None
    beyond = _beyond(searched) if best else None
    application = _application(searched)
    each = _arithmetic(searched, best, application)
    return {
        **search_figures(searched),
        "pooler": searched.pooler.kind,
        "clients": searched.clients,
        "rate_tps": searched.rate_tps,
        "best": best,
        "sentence": _sentence(searched, best) + _doubt(searched.limit),
        "highest": _highest(found),
        "curve": tuple(_point(searched, round(n)) for n in sorted(curve.points)) if found else (),
        "limit_beyond": limit_beyond(beyond, searched.larger, searched.why_no_larger),
        "beyond": beyond,
        "settings": _settings(searched, best, application, each),
        "arithmetic": each,
        "application": application,
        "sustained": _sustained(searched),
    }


def _beyond(searched: PoolSearched) -> Beyond | None:
    assert searched.found is not None
    return beyond_best(
        searched.found, searched.curve, searched.limit, searched.larger, searched.pools
    )


def _application(searched: PoolSearched) -> ApplicationPools | None:
    """Return the result for the pools in front of the pooler."""
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
    searched: PoolSearched, best: BestSize | None, application: ApplicationPools | None
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
    searched: PoolSearched,
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


def _sustained(searched: PoolSearched) -> Sustained | None:
    """Return the figures of the long slice, which are of both layers where there are two."""
    layer = searched.application or searched
    curve = layer.curve
    levels = {size: level_of_size(layer.found, curve, round(size)) for size in curve.points}
    return sustained(layer.hold, {size: level.tps for size, level in levels.items()})


def _best(searched: PoolSearched) -> BestSize:
    found, curve = searched.found, searched.curve
    assert found is not None
    slices, level = curve.points[found.knee], level_of_size(found, curve, found.knee)
    return BestSize(
        size=found.knee,
        size_ci95=found.knee_bounds,
        tps=level.tps,
        ci95=level.ci95,
        p99_ms=p99_ms_of(slices),
        service_ms=round(on_connection_ms(slices, searched.pools * found.knee), 3),
    )


def _highest(found: KneeEstimate | None) -> HighestOfSizes | None:
    if found is None:
        return None
    tps = round(found.top_tps, 2)
    return HighestOfSizes(size_min=min(found.top), size_max=max(found.top), tps=tps)


def _point(searched: PoolSearched, size: int) -> SizePoint:
    slices = searched.curve.points[size]
    figures = point_figures(level_of_size(searched.found, searched.curve, size), slices)
    why = _why(searched.limits, slices)
    return SizePoint(
        size=size,
        **figures,
        service_ms=round(on_connection_ms(slices, searched.pools * size), 3),
        met=not why,
        why=why or unsteady_words(figures["steady"]),
    )


def _why(limits: Sequence[Limit], slices: Sequence[PointSlice]) -> str:
    """Return why the slices of a size together do not meet the limits; '' if they do."""
    response = merged_response(slices)
    exceeded = [each.exceeded_words(response) for each in limits if not each.is_met(response)]
    return slices[-1].failing or " and ".join(exceeded)


def _sentence(searched: PoolSearched, best: BestSize | None) -> str:
    found = searched.found
    if found is None:
        return f"nothing was measured: {searched.why_no_larger}"
    if best is None:
        return _none_meets(searched, found)
    latency = "" if best.p99_ms is None else f", p99 {numbers.significant(best.p99_ms)} ms"
    rank = rank_words(
        found,
        top_words(found),
        f"{numbers.tps(best.tps)} tps{latency}, with {searched.clients:,} clients",
        have="has" if best.size == 1 else "have",
        limits=f" of the sizes that meet {limits_words(searched)}" if searched.limits else "",
        of="a pool of ",
    )
    size = numbers.counted(best.size, "connection", "connections")
    head = f"{_pool_words(searched)} has {size}{bounds_words(best.size_ci95)}"
    return f"{head}{rank}{_more_words(searched, found)}"


def _pool_words(searched: PoolSearched) -> str:
    if searched.application is not None:
        return f"the best pool of {TITLES[searched.pooler.kind]}"
    return "the best pool" if searched.pools == 1 else "the best pool of each instance"


def _more_words(searched: PoolSearched, found: KneeEstimate) -> str:
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


def _none_meets(searched: PoolSearched, found: KneeEstimate) -> str:
    """Return the sentence for limits that no size meets, with the least wait of so many clients."""
    limits = limits_words(searched) or "the limit of failures"
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
