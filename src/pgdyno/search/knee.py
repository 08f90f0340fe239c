"""``pgdyno knee``: how much a server takes, the knee of throughput by clients, or the highest rate
that meets limits of the response time."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec import Struct, field

from pgdyno.conduct import Session
from pgdyno.diagnose import Diagnosis
from pgdyno.errors import UsageError
from pgdyno.record import SliceKind
from pgdyno.results import store
from pgdyno.results.knee import Capacity, KneeResult
from pgdyno.search._bisection import CONFIRMED, RateSearch, three_digits
from pgdyno.search._curve import Hold, Searched
from pgdyno.search._knee_result import capacity_of_clients, capacity_of_rates
from pgdyno.search._points import Aim, VoidPoint
from pgdyno.search._preparing import (
    chosen_group,
    clients_default,
    clients_limit,
    with_group,
    with_scale,
)
from pgdyno.search._sizes import SizeSearch
from pgdyno.search.measuring import Measuring, record_findings
from pgdyno.search.slo import EXAMPLE, Limit
from pgdyno.spec import Arrival, Change, ClientGroup, Spec
from pgdyno.trial.result import head

RATE_MAX = 1_000_000.0
PROBE_RATE, PROBE_SECONDS = 20.0, 1.5
"""A low rate at which the time of one transaction is measured, to begin the search."""
STEPS_DOWN = 64.0
"""The lowest rate that is tried is so much lower than the first."""
LENGTHENED = 4.0
"""A slice at a low rate is at most so many times as long as others."""
HOLDS_MAX = 3
"""Long slices at rates, of which the first may turn out not to be held."""
BASE_RATE = 1.0
"""Rate of a closed loop that is made an open one; points are factors of it."""


def prepared_spec(
    spec: Spec, *, group: str | None, clients: int | None, limits: Sequence[Limit]
) -> tuple[Spec, str]:
    """Return the spec under which the points are measured, and the name of the group that varies.

    ``clients`` are the most that may be tried; with ``limits`` the group sends at a rate. Raises
    UsageError where no group, or no such group, can be varied.
    """
    chosen = chosen_group(spec, group)
    most = clients or clients_default()
    # How many connections a running server has free is known once it is connected.
    known = clients is not None or spec.server.kind == "embedded"
    changed = chosen.model_copy(
        update={
            "count": most if known else chosen.count,
            "arrival": _arrival(chosen, limits),
        }
    )
    return with_scale(with_group(spec, chosen, changed), most), chosen.name


def closed_group(spec: Spec) -> str:
    """Return the name of the only group that sends transactions, in a closed loop. Raises
    UsageError if there is none: then ``pgdyno knee`` has the options that are needed."""
    active = [each for each in spec.clients if not each.idle]
    if len(active) == 1 and active[0].open_loop is None:
        return active[0].name
    several = f"has {len(active)} client groups" if len(active) > 1 else "sends at a rate"
    raise UsageError(
        f"--knee varies the number of clients of one closed loop, and the spec {several}",
        code="contradiction",
        hint="pgdyno knee, with --group or --slo",
    )


def _arrival(group: ClientGroup, limits: Sequence[Limit]) -> Arrival | str:
    """Return how the transactions of the group arrive."""
    if not limits:
        if group.open_loop:
            raise UsageError(
                f"the clients of {group.name} send at a rate, and the highest rate needs a limit of"
                " the response time",
                code="contradiction",
                hint=f"--slo '{EXAMPLE}'",
            )
        return "closed"
    if group.think_ms:
        raise UsageError(
            "--slo looks for a rate, and clients that send at a rate do not pause (think)",
            code="contradiction",
            hint="remove think, or leave --slo out to look for a number of clients",
        )
    arrival = group.open_loop
    if arrival is None:
        return Arrival(rate=BASE_RATE)
    if arrival.shape is not None:
        raise UsageError(
            f"the rate of {group.name} has {arrival.shape}, and a rate that is looked for is"
            " constant",
            code="contradiction",
            hint=f"remove arrival.{arrival.shape} from the spec",
        )
    return arrival


class KneeRequest(Struct, frozen=True):
    """The subject of a search."""

    group: str
    """The client group that is varied."""
    limits: tuple[Limit, ...]
    """With limits a rate is looked for, without them a number of clients."""
    clients_max: int | None
    """None: as many as are worth trying, and as connections are free."""
    budget_s: float
    base: Change = field(default_factory=Change)
    """The change on top of which clients or rates are varied."""


class CapacityAnswer(Struct, frozen=True):
    """The result, and the diagnosis of the limit that ends it."""

    capacity: Capacity
    diagnosis: Diagnosis | None
    no_answer: str | None
    """The reason why no answer can be trusted; None if one can."""


def find_knee(session: Session, request: KneeRequest) -> KneeResult:
    """Find how much the server takes; record and return the result."""
    answer = find_capacity(session, request)
    session.stop_load()
    findings = record_findings(session, answer.diagnosis)
    result = KneeResult(
        **dict(head(session.reader(), findings, no_verdict=answer.no_answer)),
        **dict(answer.capacity),
    )
    store(session.recorder, result)
    return result


def find_capacity(session: Session, request: KneeRequest) -> CapacityAnswer:
    """Find how much the server takes, within ``budget_s`` of load. The load is left running.

    Raises RunError if the server does not come back after it was away.
    """
    return _KneeSearch(session, request).run()


class _KneeSearch:
    def __init__(self, session: Session, request: KneeRequest) -> None:
        self._session = session
        self._request = request
        self._rng = random.Random(session.spec.load.seed)
        group = next(each for each in session.spec.clients if each.name == request.group)
        self._most, self._why_most = clients_limit(session, group, request.clients_max)
        rate = group.open_loop.rate if group.open_loop else 1.0
        self._aim = (
            Aim("rate", request.group, request.base, request.limits, self._most, rate)
            if request.limits
            else Aim("clients", request.group, request.base)
        )
        self._measuring = Measuring(session, self._aim, request.budget_s)
        self._curve, self._times = self._measuring.curve, self._measuring.times

    def run(self) -> CapacityAnswer:
        return self._find_rate() if self._request.limits else self._find_clients()

    def _find_clients(self) -> CapacityAnswer:
        self._session.watcher.phase("warming up")
        self._session.apply(self._aim.change(min(self._most, self._warm_clients)))
        self._session.watcher.phase("looking for the knee")
        search = SizeSearch(self._most, self._rng)
        self._measuring.search(search)
        found = search.found()
        hold = None if found is None else self._measuring.hold(found.answer)
        shown = [] if found is None else self._curve.ids(found.at_limit)
        limit = self._measuring.diagnosed(shown)
        searched = self._searched(hold, limit, out_of_time=self._measuring.lacks_time(search))
        why_most = self._measuring.why_no_larger(search, self._why_most)
        capacity = capacity_of_clients(searched, found, why_most=why_most)
        return CapacityAnswer(capacity, limit, self._measuring.no_answer(search.why_ended))

    def _searched(
        self, hold: Hold | None, limit: Diagnosis | None, *, out_of_time: bool
    ) -> Searched:
        return Searched(
            group=self._request.group,
            limits=self._request.limits,
            curve=self._curve,
            hold=hold,
            limit=limit,
            out_of_time=out_of_time,
            elapsed_s=self._times.elapsed_s,
        )

    @property
    def _warm_clients(self) -> int:
        return round(2 * (self._session.target.facts.get("cores") or 2))

    def _find_rate(self) -> CapacityAnswer:
        first = self._first_rate()
        self._session.watcher.phase("looking for the highest rate")
        lowest = max(first / STEPS_DOWN, self._lowest_rate)
        search = RateSearch(max(first, lowest), lowest, RATE_MAX, self._rng)
        hold = self._rate_that_lasts(search)
        ended = search.too_high
        limit = self._measuring.diagnosed(self._curve.ids(ended) if ended else [])
        unsure = search.met is not None and hold is None
        searched = self._searched(hold, limit, out_of_time=unsure or search.next_rate() is not None)
        capacity = capacity_of_rates(searched, search, clients=self._aim.clients)
        return CapacityAnswer(capacity, limit, self._measuring.no_answer(None))

    def _rate_that_lasts(self, search: RateSearch) -> Hold | None:
        """Search until the answer meets the limits over a long slice as well, as far as there is
        time; return that slice."""
        for number in range(HOLDS_MAX):
            self._search_rates(search)
            if search.met is None or (number and not self._times.has_hold):
                return None
            hold = self._measuring.hold(search.met)
            if hold is None or not hold.measured.why:
                return hold
            self._curve.add(search.met, hold.measured)
            search.reject(search.met)
        return None

    def _first_rate(self) -> float:
        """Return half of the rate that one client would have, by the time of a transaction: the
        median, as a stall may meet the short slice."""
        self._session.watcher.phase("measuring the time of one transaction")
        self._session.apply(self._aim.change(PROBE_RATE))
        slice_id = self._session.slice(PROBE_SECONDS, kind=SliceKind.RAMP)
        service = self._session.reader().histogram("service", [slice_id], group=self._aim.group)
        return three_digits(0.5e9 / service.percentile(50.0)) if service.count else 1.0

    @property
    def _lowest_rate(self) -> float:
        """The rate below which too few transactions are due for the limits to be judged."""
        seconds = CONFIRMED * LENGTHENED * self._times.slice_s + self._times.hold_s
        return three_digits(self._samples_needed / seconds)

    @property
    def _samples_needed(self) -> int:
        return max(each.samples_needed for each in self._request.limits)

    def _search_rates(self, search: RateSearch) -> None:
        while self._times.slices_left and (rate := search.next_rate()) is not None:
            try:
                measured = self._measuring.measure(rate, self._rate_seconds(rate))
            except VoidPoint:
                search.add(rate, met=False)
                continue
            self._curve.add(rate, measured)
            search.add(rate, met=not measured.why)

    def _rate_seconds(self, rate: float) -> float:
        """Return how long a slice is in which enough transactions are due for the limits."""
        longest_s = LENGTHENED * self._times.slice_s
        return max(self._times.slice_s, min(self._samples_needed / rate, longest_s))
