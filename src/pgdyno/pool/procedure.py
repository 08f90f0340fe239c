"""The procedure of ``pgdyno pool``: the search over sizes, both diagnoses, the result."""

from __future__ import annotations

import random

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.conduct import Session
from pgdyno.pool._limits import clients_within, pools_limit, sizes_limit
from pgdyno.pool._outcome import Searched, pool_figures
from pgdyno.pool.preparing import FIRST_SIZE, layers_of
from pgdyno.record import SliceKind
from pgdyno.results import store
from pgdyno.results.pool import PoolResult
from pgdyno.search.curve import Curve
from pgdyno.search.measuring import Measuring, record_findings
from pgdyno.search.points import Aim
from pgdyno.search.sizes import SizeSearch
from pgdyno.search.slo import Limit
from pgdyno.spec import Change
from pgdyno.spec.pooler import SIZE_SETTINGS
from pgdyno.trial.result import head

PROBE_SECONDS = 1.5
"""Length of the slice that shows how many clients a limit has room for."""

POOLER_SHARE = 0.5
"""Share of the budget for the pooler's size, where that of the application's pools is looked for
too."""


class Request(Struct, frozen=True):
    """The subject of a search."""

    group: str
    limits: tuple[Limit, ...]
    size_max: int | None
    """None: as many connections as are worth trying, and are free."""
    budget_s: float
    instances: int = 1
    choose_clients: bool = False
    """True: as many clients as the limits have room for."""


def find_pool(session: Session, request: Request) -> PoolResult:
    """Find the best pool size; record and return the result.

    Raises RunError if the server does not come back after it was away.
    """
    return _Finding(session, request).run()


class _Finding:
    def __init__(self, session: Session, request: Request) -> None:
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
    ) -> Searched:
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
        return Searched(
            group=self._request.group,
            clients=self._clients,
            pooler=self._pooler,
            rate_tps=self._group.open_loop.rate if self._group.open_loop else None,
            limits=self._request.limits,
            instances=self._request.instances,
            found=found,
            curve=measuring.curve,
            hold=hold,
            best=best,
            larger=larger,
            why_no_larger=self._why_no_larger(measuring, search),
            out_of_time=measuring.times.slices_left == 0 and search.is_open,
            elapsed_s=measuring.times.elapsed_s,
            pools=pools,
        )

    def _warm_aim(self) -> Aim:
        """Start the load, and return what is varied, with as many clients as there is room for."""
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
        """Return what is varied: the size of the pooler's pool, or of the clients'."""
        group, limits = self._request.group, self._request.limits
        kind = self._session.spec.pooler.kind
        if kind == "none":
            return Aim("pool", group, Change(), limits)
        if self._coupled:
            setting = f"pooler.{SIZE_SETTINGS[kind]}"
            return Aim("pool", group, Change(), limits, setting=setting, pools=self._instances)
        return Aim("pooler", group, Change(), limits, setting=f"pooler.{SIZE_SETTINGS[kind]}")

    def _application_aim(self, aim: Aim, pooler_size: int) -> Aim:
        """Return the pools of the application as what is varied, with a size of the pooler's."""
        base = Change(spec={aim.setting: str(pooler_size)}).over(aim.base)
        return replace(aim, varied="pool", base=base, setting="")

    def _why_no_larger(self, measuring: Measuring, search: SizeSearch) -> str:
        """Return why no larger size was tried."""
        if max(measuring.curve.points, default=0) < search.most:
            return "the time budget ended"
        return search.why_ended or self._why_most

    def _recorded(self, searched: Searched, no_answer: str | None) -> PoolResult:
        self._session.stop_load()
        findings = record_findings(self._session, searched.best)
        result = PoolResult.model_validate(
            {
                **dict(head(self._session.reader(), findings, no_verdict=no_answer)),
                **pool_figures(searched),
            }
        )
        store(self._session.recorder, result)
        return result


def _summed(searched: Searched) -> Searched:
    """Return what was measured with the sum of the application's pools as the pooler's size, and
    the pools themselves as the layer in front of it."""
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
