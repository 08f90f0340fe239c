"""The procedure of ``pgdyno storm``: the search, what would change the storm, the result."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from msgspec import Struct

from pgdyno.conduct import Session
from pgdyno.results import store
from pgdyno.results.storm import StormPoint, StormResult, Variant
from pgdyno.spec import Change
from pgdyno.storm._measuring import Storms
from pgdyno.storm._search import StormSearch
from pgdyno.storm._shapes import SHAPES
from pgdyno.storm._variants import compared, variants_of, within_time
from pgdyno.trial.result import head

SEARCH_SHARE = 0.6
"""Share of the budget that the search may take."""
OVERHEAD_S = 1.0
"""Time that a storm takes in addition to its arrival, to start and to end."""


class Request(Struct, frozen=True):
    """The question."""

    shape: str
    group: str
    clients_max: int
    within_s: float
    budget_s: float


def find_storm(session: Session, request: Request) -> StormResult:
    """Find the largest storm that the server survives; record and return the result."""
    began_s = time.monotonic()
    storms = Storms(session, request.shape, request.group, request.within_s)
    search = StormSearch(request.clients_max)
    points: list[StormPoint] = []
    longest_s = 0.0

    def has_time(share: float) -> bool:
        needed_s = longest_s + OVERHEAD_S
        return time.monotonic() - began_s + needed_s <= share * request.budget_s

    out_of_time = False
    while (clients := search.next()) is not None:
        if points and not has_time(SEARCH_SHARE):
            out_of_time = True
            break
        started_s = time.monotonic()
        point = storms.make(clients, Change(), "")
        longest_s = max(longest_s, time.monotonic() - started_s)
        points.append(point)
        search.add(clients, point.survived)
    left_s = request.budget_s - (time.monotonic() - began_s)
    changes, untried = within_time(
        _changes(session, request, search), int(left_s / (longest_s + OVERHEAD_S))
    )
    variants = _variants(session, storms, changes, search, lambda: has_time(1.0))
    largest = _largest(points, search.survived)
    result = StormResult(
        **dict(head(session.reader(), [])),
        shape=request.shape,
        group=request.group,
        within_s=request.within_s,
        clients_max=request.clients_max,
        largest=largest,
        failed=search.failed,
        sentence=sentence_of(request, largest, search.failed, points, out_of_time=out_of_time),
        points=tuple(points),
        variants=tuple(variants),
        untried=tuple(untried if variants else list(changes)[1:] + untried),
        out_of_time=out_of_time,
        elapsed_s=round(time.monotonic() - began_s, 1),
    )
    store(session.recorder, result)
    return result


def _changes(session: Session, request: Request, search: StormSearch) -> dict[str, Change]:
    """Return what might change the smallest storm that was not survived, or the largest."""
    clients = search.failed or search.survived
    if clients is None:
        return {}
    spec = session.spec
    return variants_of(request.shape, request.group, clients, spec.load.connecting_max, spec.pooler)


def _variants(session: Session, storms: Storms, changes: dict[str, Change], search: StormSearch,
              has_time: Callable[[], bool]) -> list[Variant]:  # fmt: skip
    """Return what the changes do to that storm."""
    clients = search.failed or search.survived
    if clients is None or len(changes) < 2:
        return []
    return compared(changes, clients, storms.make, has_time, random.Random(session.spec.load.seed))


def _largest(points: list[StormPoint], survived: int | None) -> StormPoint | None:
    """Return the storm of this size that took longest."""
    these = [each for each in points if each.survived and each.clients == survived]
    return max(these, key=lambda each: each.steady_s or 0.0, default=None)


def sentence_of(
    request: Request,
    largest: StormPoint | None,
    failed: int | None,
    points: list[StormPoint],
    *,
    out_of_time: bool,
) -> str:
    """Return the answer."""
    title = SHAPES[request.shape].title
    within = f"within {request.within_s:g} s"
    last = next((each for each in reversed(points) if each.clients == failed), None)
    why = f"; with {failed:,} {last.why}{_cause(last)}" if last and failed else ""
    if largest is None:
        if failed is None:
            return "no answer: the budget ended before a storm was made twice"
        return f"no storm of clients that {title} is survived {within}{why}"
    took = f", steady after {largest.steady_s:.1f} s" if largest.steady_s is not None else ""
    more = "" if failed or out_of_time else ", the most that were tried"
    ended = "; the budget ended before the limit was found" if out_of_time else ""
    return f"{largest.clients:,} clients that {title} are survived{took}{more}{why}{ended}"


def _cause(point: StormPoint) -> str:
    if not point.errors:
        return ""
    first = point.errors[0]
    return f" ({first.count:,} × {first.sqlstate}: {first.message})"
