"""``pgdyno pool``: the size of a connection pool, that of the clients, of a pooler, or of both: the
smallest with nearly all of the highest throughput."""

from __future__ import annotations

import random

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.conduct import Session
from pgdyno.errors import UsageError
from pgdyno.record import SliceKind
from pgdyno.results import store
from pgdyno.results.pool import PoolResult
from pgdyno.search._curve import Curve
from pgdyno.search._points import Aim
from pgdyno.search._pool_result import PoolSearched, pool_figures
from pgdyno.search._preparing import (
    chosen_group,
    clients_default,
    clients_within,
    pools_limit,
    sizes_limit,
    with_group,
    with_scale,
)
from pgdyno.search._sizes import SizeSearch
from pgdyno.search.measuring import Measuring, record_findings
from pgdyno.search.slo import Limit
from pgdyno.spec import Change, ClientGroup, Pool, Spec
from pgdyno.spec.pooler import SIZE_SETTINGS
from pgdyno.trial.result import head

PROBE_SECONDS = 1.5
"""Length of the slice that shows how many clients a limit has room for."""
POOLER_SHARE = 0.5
"""Share of the budget for the pooler's size, where that of the application's pools is looked for
too."""
CLIENTS_OVER_SIZES = 2
"""By default there are so many times as many clients as connections are tried: a pool is shared."""
FIRST_SIZE = 8
"""Size of the pool while the load warms up."""


def prepared_spec(
    spec: Spec, *, group: str | None, choose_clients: bool, instances: int | None = None
) -> tuple[Spec, str]:
    """Return the spec under which the sizes are measured, and the name of the group that varies.

    ``choose_clients``: neither an option nor a spec says how many there are. With ``instances``
    behind a pooler, the application has pools of its own. Raises UsageError where no group, or no
    such group, can share a pool.
    """
    chosen = chosen_group(spec, group)
    count = CLIENTS_OVER_SIZES * clients_default() if choose_clients else chosen.count
    if count < 2:
        raise UsageError(
            f"{chosen.name} has one client, which needs one connection: there is no pool size to"
            " look for",
            code="one-client",
            hint="-c 100, or count = 100 in the spec",
        )
    layers = spec.pooler.in_use and (chosen.pool is not None or instances is not None)
    if chosen.reconnect_every and (layers or not spec.pooler.in_use):
        raise UsageError(
            f"{chosen.name} makes new connections all the time, and a pool keeps its connections",
            code="contradiction",
            hint='leave -C out, or remove connection = "per-transaction" from the spec',
        )
    number = 1
    if layers or chosen.instances > 1:
        number = _instances(chosen, count, instances)
    pool = _application_pool(chosen, count, number) if layers else _pool(spec, chosen, count)
    changed = chosen.model_copy(update={"count": count, **pool})
    pooled = _with_pooler(
        with_group(spec, chosen, changed), changed.connections_max if layers else count
    )
    return with_scale(pooled, count), chosen.name


def layers_of(spec: Spec, group: str) -> int:
    """Return how many sizes are looked for: two where the application has pools in front of the
    pooler, whose size is not simply their sum."""
    chosen = next(each for each in spec.clients if each.name == group)
    return 1 + (spec.pooler.kind == "pgbouncer" and chosen.pool is not None)


def _instances(group: ClientGroup, clients: int, asked: int | None) -> int:
    """Return how many instances there are, each with a client at least."""
    number = group.instances if asked is None else asked
    if group.instances > 1 and number != group.instances:
        raise UsageError(
            f"{group.name} has {group.instances} instances in the spec, and --instances {asked} is"
            " another number",
            code="contradiction",
            hint="leave --instances out",
        )
    if number > clients:
        raise UsageError(
            f"{group.name} has {clients:,} clients, and {number:,} instances would need one each",
            code="fewer-clients-than-instances",
            hint=f"-c {CLIENTS_OVER_SIZES * number}, or fewer instances",
        )
    return number


def _application_pool(
    group: ClientGroup, clients: int, instances: int
) -> dict[str, Pool | int | None]:
    """Return pools of the application with a connection for each client, so that at first only the
    pooler's limits them."""
    pool = (group.pool or Pool()).model_copy(
        update={"max": -(-clients // instances), "min_idle": 0}
    )
    return {"pool": pool, "instances": instances}


def _pool(spec: Spec, group: ClientGroup, clients: int) -> dict[str, Pool | str | None]:
    """Return the group's pool with the first size; behind a pooler it is that whose size is
    varied. pgpool-II keeps a process for each client, so that only clients that disconnect share
    it."""
    if spec.pooler.kind == "pgpool" and not group.reconnect_every:
        return {"pool": None, "connection": "per-transaction"}
    if spec.pooler.in_use:
        return {}
    pool = group.pool or Pool()
    return {"pool": pool.model_copy(update={"max": min(FIRST_SIZE, clients), "min_idle": 0})}


def _with_pooler(spec: Spec, clients: int) -> Spec:
    """Return the spec with a pooler that shares its connections, of the first size."""
    pooler = spec.pooler
    if not pooler.in_use:
        return spec
    if pooler.kind not in SIZE_SETTINGS:
        raise UsageError(
            f"pooler.kind = {pooler.kind}: its pool size cannot be looked for",
            code="pooler-without-size",
            hint=f"--pooler {' or '.join(SIZE_SETTINGS)}",
        )
    if pooler.settings.get("pool_mode", "transaction") == "session":
        raise UsageError(
            "with pool_mode = session each client keeps a connection, and as many as there are"
            " connections are served: there is no size to look for",
            code="contradiction",
            hint="pool_mode = transaction, which is the default here",
        )
    defaults = {"pool_mode": "transaction"}
    if pooler.kind == "pgpool":
        # A client that waits is in the listen queue, which otherwise is twice as long as the pool.
        defaults = {"max_pool": "1", "listen_backlog_multiplier": str(clients)}
    size = {SIZE_SETTINGS[pooler.kind]: str(min(FIRST_SIZE, clients))}
    settings = {**defaults, **pooler.settings, **size}
    load = spec.load
    if pooler.kind == "pgbouncer" and "protocol" not in load.model_fields_set:
        # Prepared statements are not supported by every version in this mode.
        load = load.model_copy(update={"protocol": "extended"})
    pooler = pooler.model_copy(update={"settings": settings})
    return spec.model_copy(update={"pooler": pooler, "load": load})


class PoolRequest(Struct, frozen=True):
    """The subject of a search."""

    group: str
    limits: tuple[Limit, ...]
    size_max: int | None
    """None: as many connections as are worth trying, and are free."""
    budget_s: float
    instances: int = 1
    choose_clients: bool = False
    """True: as many clients as the limits have room for."""


def find_pool(session: Session, request: PoolRequest) -> PoolResult:
    """Find the best pool size; record and return the result.

    Raises RunError if the server does not come back after it was away.
    """
    return _PoolSearch(session, request).run()


class _PoolSearch:
    def __init__(self, session: Session, request: PoolRequest) -> None:
        self._session = session
        self._request = request
        self._spec = session.spec
        self._group = next(each for each in self._spec.clients if each.name == request.group)
        self._pooler = self._spec.pooler
        self._layers = layers_of(self._spec, request.group)
        self._instances = self._group.instances if self._group.pool else 1
        self._coupled = self._pooler.kind == "pgpool" and self._group.pool is not None
        pools = self._instances if self._layers == 1 else 1
        self._most, self._why_most = sizes_limit(
            session, request.group, request.size_max, pools=pools
        )
        self._clients = self._group.count
        self._why_ended: str | None = None
        """Reason why the last search tried less than it could at first."""

    def run(self) -> PoolResult:
        budget_s = self._request.budget_s
        aim = self._warm_aim()
        if self._layers == 1:
            measuring = Measuring(self._session, aim, budget_s)
            searched = self._search(measuring, "looking for the best pool size", self._instances)
            no_answer = measuring.no_answer(self._why_ended)
            return self._recorded(_summed(searched) if self._coupled else searched, no_answer)
        first = Measuring(self._session, aim, POOLER_SHARE * budget_s)
        pooler = self._search(
            first, "looking for the best size of the pooler's pool", 1, last=False
        )
        if pooler.found is None:
            return self._recorded(pooler, first.no_answer(self._why_ended))
        second = Measuring(
            self._session,
            self._application_aim(aim, pooler.found.knee),
            max(budget_s - first.times.elapsed_s, (1 - POOLER_SHARE) * budget_s),
        )
        self._most, self._why_most = pools_limit(
            self._clients, self._request.size_max, self._instances
        )
        what = "looking for the best size of the application's pools"
        application = self._search(second, what, self._instances)
        whole = replace(
            pooler,
            application=application,
            out_of_time=pooler.out_of_time or application.out_of_time,
            elapsed_s=first.times.elapsed_s,
        )
        return self._recorded(whole, first.no_answer(None) or second.no_answer(None))

    def _search(
        self, measuring: Measuring, phase: str, pools: int, *, last: bool = True
    ) -> PoolSearched:
        """Search for the size of so many pools; ``last``: and measure whether it lasts."""
        self._session.watcher.phase(phase)
        search = SizeSearch(self._most, random.Random(self._spec.load.seed))
        measuring.search(search)
        self._why_ended = search.why_ended
        found = search.found()
        hold = measuring.hold(found.knee) if last and found and found.meets else None
        best = measuring.diagnosed(measuring.curve.ids(found.knee) if found else [])
        largest = found.levels.points[-1] if found else 0
        larger = (
            measuring.diagnosed(measuring.curve.ids(largest))
            if found and largest > found.knee
            else None
        )
        return PoolSearched(
            group=self._request.group,
            clients=self._clients,
            pooler=self._pooler,
            rate_tps=self._group.open_loop.rate if self._group.open_loop else None,
            limits=self._request.limits,
            instances=self._request.instances,
            found=found,
            curve=measuring.curve,
            hold=hold,
            limit=best,
            larger=larger,
            why_no_larger=measuring.why_no_larger(search, self._why_most),
            out_of_time=measuring.lacks_time(search),
            elapsed_s=measuring.times.elapsed_s,
            pools=pools,
        )

    def _warm_aim(self) -> Aim:
        """Start the load with as many clients as there is room for, and return the search's aim."""
        self._session.watcher.phase("warming up")
        aim = self._aim()
        first = min(FIRST_SIZE, self._most)
        self._session.apply(aim.change(first))
        if not self._request.limits or not self._request.choose_clients or self._group.open_loop:
            return aim
        slice_id = self._session.slice(PROBE_SECONDS, kind=SliceKind.RAMP)
        done = self._session.reader().ledger([slice_id]).done
        within = clients_within(self._request.limits, done / PROBE_SECONDS, self._clients)
        if within < self._clients:
            self._clients = within
            if within < self._most:
                self._most, self._why_most = within, f"there are {within:,} clients"
            aim = replace(aim, base=Change(clients={self._request.group: within}))
        return aim

    def _aim(self) -> Aim:
        """Return the aim of the search: the size of the pooler's pool, or of the clients'."""
        group, limits = self._request.group, self._request.limits
        kind = self._session.spec.pooler.kind
        if kind == "none":
            return Aim("pool", group, Change(), limits)
        if self._coupled:
            setting = f"pooler.{SIZE_SETTINGS[kind]}"
            return Aim("pool", group, Change(), limits, setting=setting, pools=self._instances)
        return Aim("pooler", group, Change(), limits, setting=f"pooler.{SIZE_SETTINGS[kind]}")

    def _application_aim(self, aim: Aim, pooler_size: int) -> Aim:
        """Return the aim of the search for the application's pools, with a size of the pooler's."""
        base = Change(spec={aim.setting: str(pooler_size)}).over(aim.base)
        return replace(aim, varied="pool", base=base, setting="")

    def _recorded(self, searched: PoolSearched, no_answer: str | None) -> PoolResult:
        self._session.stop_load()
        findings = record_findings(self._session, searched.limit)
        result = PoolResult.model_validate(
            {
                **dict(head(self._session.reader(), findings, no_verdict=no_answer)),
                **pool_figures(searched),
            }
        )
        store(self._session.recorder, result)
        return result


def _summed(searched: PoolSearched) -> PoolSearched:
    """Return the measurements with the sum of the application's pools as the pooler's size, and the
    pools themselves as the layer in front of it."""
    pools, found, curve = searched.pools, searched.found, searched.curve
    if found is not None:
        points = tuple(pools * each for each in found.levels.points)
        low, high = found.knee_bounds
        found = replace(
            found,
            levels=replace(found.levels, points=points),
            knee=pools * found.knee,
            knee_bounds=(pools * low, pools * high),
            top=tuple(pools * each for each in found.top),
        )
    sums = Curve({pools * point: slices for point, slices in curve.points.items()})
    return replace(searched, found=found, curve=sums, pools=1, application=searched, coupled=True)
