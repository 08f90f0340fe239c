"""``pgdyno storm``: how many clients may connect at once, or come back at once, and what would
change that: a slower start, limits of queues."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable

from msgspec import Struct

from pgdyno.conduct import Session, check_open_files
from pgdyno.errors import UsageError
from pgdyno.results import store
from pgdyno.results.storm import StormPoint, StormResult, Variant
from pgdyno.search._bisection import StormSearch
from pgdyno.search._preparing import chosen_group, with_group, with_scale
from pgdyno.search._storm_load import SHAPES, Storms
from pgdyno.search._storm_variants import compared, variants_of, within_time
from pgdyno.spec import Change, ClientGroup, Connection, Spec
from pgdyno.trial.result import head

SEARCH_SHARE = 0.6
"""Share of the budget that the search may take."""
OVERHEAD_S = 1.0
"""Time that a storm takes in addition to its arrival, to start and to end."""
DIRECT_MAX = 1_000
POOLED_MAX = 10_000
THINK_MS = 5_000
"""Pause of each client after a transaction: a storm is about arrival."""
SCALE_CLIENTS = 10
"""Clients by which tables are scaled: only few of them execute a transaction at a time."""
SPARE_CONNECTIONS = 20
ROOM = 1.25
"""Ratio of max_connections to the clients: sessions of the storm before may still be ending."""
IDLE_GROUP = "leak"
BUDGET_MIN_S = 20
AT_ONCE_MS = 1


def check_budget(budget_ms: int) -> None:
    """Raise UsageError for a budget that is too short."""
    if budget_ms < 1000 * BUDGET_MIN_S:
        raise UsageError(
            f"--budget {budget_ms / 1000:g}s: a search for storms needs at least {BUDGET_MIN_S} s",
            code="storm-budget",
        )


def clients_most(spec: Spec, asked: int | None) -> int:
    """Return the most clients of a storm."""
    pooled = spec.pooler.in_use or spec.server.control is not None
    return asked or (POOLED_MAX if pooled else DIRECT_MAX)


def prepared_spec(
    spec: Spec, *, shape: str, group: str | None, clients_max: int, connecting_max: int | None
) -> tuple[Spec, str]:
    """Return the spec under which storms are made, and the group that they are of. Raises
    UsageError where no group, or no such group, can arrive, SetupError for too few open files."""
    chosen = chosen_group(spec, group)
    if chosen.open_loop or chosen.reconnect_every:
        raise UsageError(
            f"the clients of {chosen.name} "
            + ("send at a rate" if chosen.open_loop else "make new connections all the time")
            + ", and those of a storm connect and stay",
            code="contradiction",
            hint="remove arrival or connection from the group",
        )
    _raise_open_files(clients_max)
    spec = _with_arrival(spec, chosen, shape).model_copy(
        update={
            "load": _load(spec, shape, connecting_max or clients_max),
            "server": _server(spec, clients_max),
            "pooler": _pooler(spec, clients_max),
        }
    )
    return with_scale(spec, SCALE_CLIENTS), IDLE_GROUP if SHAPES[shape].idle else chosen.name


def _with_arrival(spec: Spec, chosen: ClientGroup, shape: str) -> Spec:
    """Return the spec with one client of the group that arrives, to begin with."""
    if SHAPES[shape].idle:
        idle = ClientGroup(name=IDLE_GROUP, count=1, idle=True)
        return spec.model_copy(update={"clients": [*spec.clients, idle]})
    think_ms = chosen.think_ms or THINK_MS
    first = chosen.model_copy(update={"count": 1, "think_ms": think_ms})
    if SHAPES[shape].at_once_again:
        at_once = Connection.model_validate({"slow_start": False})
        first = first.model_copy(update={"connection": at_once})
    return with_group(spec, chosen, first)


def _load(spec: Spec, shape: str, connecting_max: int) -> object:
    changed: dict[str, object] = {"connecting_max": connecting_max}
    if SHAPES[shape].at_once_again:
        changed |= {"backoff_min_ms": AT_ONCE_MS, "backoff_max_ms": AT_ONCE_MS}
    return spec.load.model_copy(update=changed)


def _server(spec: Spec, clients_max: int) -> object:
    """Return the server with room for all clients, unless the user says how many it lets in."""
    given = spec.server.settings
    if spec.server.kind != "embedded" or spec.pooler.in_use or "max_connections" in given:
        return spec.server
    others = sum(each.connections_max for each in spec.clients)
    room = str(round(ROOM * clients_max) + others + SPARE_CONNECTIONS)
    return spec.server.model_copy(update={"settings": {**given, "max_connections": room}})


def _pooler(spec: Spec, clients_max: int) -> object:
    given = spec.pooler.settings
    if spec.pooler.kind != "pgbouncer" or "max_client_conn" in given:
        return spec.pooler
    room = str(round(ROOM * clients_max) + SPARE_CONNECTIONS)
    return spec.pooler.model_copy(update={"settings": {**given, "max_client_conn": room}})


def _raise_open_files(clients_max: int) -> None:
    """Let this process, and a pooler that it starts, have as many open files as they may."""
    check_open_files(clients_max)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class StormRequest(Struct, frozen=True):
    """The question."""

    shape: str
    group: str
    clients_max: int
    within_s: float
    budget_s: float


def find_storm(session: Session, request: StormRequest) -> StormResult:
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
    while (clients := search.next_clients()) is not None:
        if points and not has_time(SEARCH_SHARE):
            out_of_time = True
            break
        started_s = time.monotonic()
        point = storms.make(clients, Change(), "")
        longest_s = max(longest_s, time.monotonic() - started_s)
        points.append(point)
        search.add(clients, met=point.survived)
    left_s = request.budget_s - (time.monotonic() - began_s)
    changes, untried = within_time(
        _changes(session, request, search), int(left_s / (longest_s + OVERHEAD_S))
    )
    variants = _variants(session, storms, changes, search, lambda: has_time(1.0))
    largest = _largest(points, search.met)
    result = StormResult(
        **dict(head(session.reader(), [])),
        shape=request.shape,
        group=request.group,
        within_s=request.within_s,
        clients_max=request.clients_max,
        largest=largest,
        failed=search.too_high,
        sentence=sentence_of(request, largest, search.too_high, points, out_of_time=out_of_time),
        points=tuple(points),
        variants=tuple(variants),
        untried=tuple(untried if variants else list(changes)[1:] + untried),
        out_of_time=out_of_time,
        elapsed_s=round(time.monotonic() - began_s, 1),
    )
    store(session.recorder, result)
    return result


def _changes(session: Session, request: StormRequest, search: StormSearch) -> dict[str, Change]:
    """Return the changes to try on the smallest storm that was not survived, or the largest."""
    clients = search.too_high or search.met
    if clients is None:
        return {}
    spec = session.spec
    return variants_of(request.shape, request.group, clients, spec.load.connecting_max, spec.pooler)


def _variants(session: Session, storms: Storms, changes: dict[str, Change], search: StormSearch,
              has_time: Callable[[], bool]) -> list[Variant]:  # fmt: skip
    """Measure the changes under that storm, and return their effects."""
    clients = search.too_high or search.met
    if clients is None or len(changes) < 2:
        return []
    return compared(changes, clients, storms.make, has_time, random.Random(session.spec.load.seed))


def _largest(points: list[StormPoint], survived: int | None) -> StormPoint | None:
    """Return the storm of this size that took longest."""
    these = [each for each in points if each.survived and each.clients == survived]
    return max(these, key=lambda each: each.steady_s or 0.0, default=None)


def sentence_of(
    request: StormRequest,
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
