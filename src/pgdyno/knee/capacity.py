"""Finding how much a server can take: the search carried out, the long slice at the end, and the
result of ``pgdyno knee``."""

from __future__ import annotations

import random

from msgspec import Struct, field

from pgdyno.conduct import Session
from pgdyno.diagnose import Diagnosis
from pgdyno.knee._outcome import capacity_of_clients, capacity_of_rates
from pgdyno.knee._rates import CONFIRMED, RateSearch, three_digits
from pgdyno.record import SliceKind
from pgdyno.results import store
from pgdyno.results.knee import Capacity, KneeResult
from pgdyno.search.connections import clients_limit
from pgdyno.search.curve import Hold
from pgdyno.search.measuring import Measuring, record_findings
from pgdyno.search.points import Aim, VoidPoint
from pgdyno.search.sizes import SizeSearch
from pgdyno.search.slo import Limit
from pgdyno.spec import Change
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


class Request(Struct, frozen=True):
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


class Answer(Struct, frozen=True):
    """The result, and the diagnosis of what ends it."""

    capacity: Capacity
    diagnosis: Diagnosis | None
    no_answer: str | None
    """The reason why no answer can be trusted; None if one can."""


def find_knee(session: Session, request: Request) -> KneeResult:
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


def find_capacity(session: Session, request: Request) -> Answer:
    """Find how much the server takes, within ``budget_s`` of load. The load is left running.

    Raises RunError if the server does not come back after it was away.
    """
    return _Finding(session, request).run()


class _Finding:
    def __init__(self, session: Session, request: Request) -> None:
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

    def run(self) -> Answer:
        return self._find_rate() if self._request.limits else self._find_clients()

    def _find_clients(self) -> Answer:
        self._session.watcher.phase("warming up")
        self._session.apply(self._aim.change(min(self._most, self._warm_clients)))
        self._session.watcher.phase("looking for the knee")
        search = SizeSearch(self._most, self._rng)
        self._measuring.search(search)
        found = search.found()
        hold = None if found is None else self._measuring.hold(found.answer)
        shown = [] if found is None else self._curve.ids(found.at_limit)
        diagnosis = self._measuring.diagnosed(shown)
        capacity = capacity_of_clients(
            self._request.group,
            found,
            self._curve,
            hold,
            limit=diagnosis,
            why_most=self._why_no_more(search),
            out_of_time=self._times.slices_left == 0 and search.is_open,
            elapsed_s=self._times.elapsed_s,
        )
        return Answer(capacity, diagnosis, self._measuring.no_answer(search.why_ended))

    def _why_no_more(self, search: SizeSearch) -> str:
        """Return why no more clients were tried."""
        if max(self._curve.points, default=0) < search.most:
            return "the time budget ended"
        return search.why_ended or self._why_most

    @property
    def _warm_clients(self) -> int:
        return round(2 * (self._session.target.facts.get("cores") or 2))

    def _find_rate(self) -> Answer:
        first = self._first_rate()
        self._session.watcher.phase("looking for the highest rate")
        lowest = max(first / STEPS_DOWN, self._lowest_rate)
        search = RateSearch(max(first, lowest), lowest, RATE_MAX, self._rng)
        hold = self._rate_that_lasts(search)
        ended = search.too_high
        diagnosis = self._measuring.diagnosed(self._curve.ids(ended) if ended else [])
        capacity = capacity_of_rates(
            self._request.group,
            self._aim,
            search,
            self._curve,
            hold,
            limit=diagnosis,
            elapsed_s=self._times.elapsed_s,
        )
        return Answer(capacity, diagnosis, self._measuring.no_answer(None))

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
