"""The price list: gains first, then drills, within one time budget, as one result."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.conduct import Session
from pgdyno.dimension import spec_with
from pgdyno.drill.fault import find_fault
from pgdyno.drill.witnesses import check_witnesses
from pgdyno.errors import Interrupted, PgdynoError, ThresholdError, UsageError
from pgdyno.numbers import counted
from pgdyno.price._gain import (
    GainTrial,
    begin_gains,
    check_real_disk,
    least_gain_seconds,
    measure_gains,
    slice_seconds,
)
from pgdyno.price._loss import DrillPlan, LossTable, drill_all, reason
from pgdyno.price.candidates import Candidate, choose
from pgdyno.price.sentences import sentence, verdict
from pgdyno.price.two_servers import Priced, compared
from pgdyno.record.incidents import incidents
from pgdyno.results import store
from pgdyno.results.common import Measure
from pgdyno.results.loss import Drilled, Loss
from pgdyno.results.price import Price, PriceResult
from pgdyno.spec import Change, Spec
from pgdyno.spec.units import format_duration
from pgdyno.stats import PAIRS_MIN
from pgdyno.trial.noise import noise_of
from pgdyno.trial.pairs import Noise
from pgdyno.trial.trust import distrust

SCHEMA_VERSION = 1
SECONDS_PER_CANDIDATE = 75.0
"""Default time for each candidate and for the baseline, in addition to that of longer slices; the
whole ladder takes 20 minutes."""
_GAIN_SHARE = 0.55


class PriceRequest(Struct, frozen=True):
    """The candidates to price, and the time for them."""

    candidates: Sequence[Candidate]
    cuts: int
    """Maximum for each drill; 0: no drills."""
    budget_s: float
    seed: int
    budget_given: bool = False
    """True for a budget that the user chose, which is kept."""


def default_budget_s(candidates: Sequence[Candidate], cuts: int) -> float:
    """Return the default time for the candidates; without drills, the time for their gains."""
    share = 1.0 if cuts else _GAIN_SHARE
    long_s: float = sum(2 * PAIRS_MIN * each.assessment.effect_after_s for each in candidates)
    return (SECONDS_PER_CANDIDATE * len(candidates) + long_s / _GAIN_SHARE) * share


def price_request(
    spec: Spec,
    *,
    ladder: str | None,
    own: Sequence[str],
    cuts: int | None,
    budget_ms: int | None,
) -> PriceRequest:
    """Return the options of a price list; those that are not given come from the spec.

    Candidates of the spec are ignored if the options name any. Raises UsageError for a candidate
    that cannot be priced.
    """
    defaults = spec.price
    names = defaults.ladder if ladder is None else ladder.split(",")
    if own:
        candidates = choose(names, own, spec)
    else:
        of_spec = defaults.candidates if ladder is None else ()
        candidates = choose(names, of_spec, spec, where="price.candidates")
    cuts = defaults.cuts if cuts is None else cuts
    budget_ms = budget_ms or defaults.budget_ms
    return PriceRequest(
        candidates=candidates,
        cuts=cuts,
        budget_s=budget_ms / 1000 if budget_ms else default_budget_s(candidates, cuts),
        seed=spec.load.seed or 1,
        budget_given=budget_ms is not None,
    )


def check_budget(request: PriceRequest) -> None:
    """Raise UsageError for a budget that was chosen and in which the list cannot be priced: six
    pairs of each candidate, and of each drill a cut or two."""
    gain_s = request.budget_s * (_GAIN_SHARE if request.cuts else 1.0)
    needed_s = least_gain_seconds(request.candidates, gain_s)
    drills = [fault for each in request.candidates for fault in each.assessment.faults]
    if request.cuts:
        needed_s += sum(find_fault(fault).seconds_min for fault in drills)
    if not request.budget_given or round(needed_s) <= request.budget_s:
        return
    measured = counted(len(request.candidates) - 1, "candidate", "candidates")
    what = f"{measured} and the noise floor, six pairs of slices each"
    also = f", and {len(drills)} drills" if request.cuts else ""
    fewer = ", or without drills (--cuts 0)" if request.cuts else ""
    raise UsageError(
        f"--budget {format_duration(round(1000 * request.budget_s))}: this list needs about"
        f" {needed_s:.0f} s: {what}{also}",
        code="contradiction",
        hint=f"--budget {5 * math.ceil(needed_s / 5)}s, fewer candidates (--ladder){fewer}",
    )


def check_price(spec: Spec, candidates: Sequence[Candidate], cuts: int) -> None:
    """Raise :class:`UsageError` if the list cannot be priced, before anything is started."""
    if spec.server.kind == "existing":
        raise UsageError(
            "prices are measured by crashing the server, and pgdyno crashes only servers that it"
            " started",
            code="not-ours",
            hint="leave the connection string out; --pg-bindir selects the server's binaries",
        )
    check_real_disk(spec)
    for candidate in candidates:
        candidate.spec(spec)
    if cuts:
        check_witnesses(spec)


def price(session: Session, request: PriceRequest, against: Priced | None = None) -> Priced:
    """Measure gains and losses under the session's load; record and return the result.

    ``against`` is the same list on another server, for comparison. After an error, the run file has
    everything that was measured before it. Raises UsageError at once for a setting that this server
    does not have, and for a candidate that changes nothing.
    """
    _check_candidates(session, request.candidates)
    pricing = _Pricing(session, request, against)
    try:
        pricing.run()
    except (PgdynoError, Interrupted) as problem:
        pricing.ended_by = reason(problem)
        raise
    finally:
        priced = pricing.record()
    assert priced is not None
    return priced


def _check_candidates(session: Session, candidates: Sequence[Candidate]) -> None:
    settings = session.target.settings
    for candidate in candidates:
        change = candidate.change
        settings.check(dict(change.settings))
        plain = spec_with(session.spec, candidate.base)
        if candidate.is_baseline or settings.differing(change.settings):
            continue
        if candidate.spec(session.spec) == spec_with(plain, Change(settings=change.settings)):
            raise UsageError(
                f"{candidate.title}: already active on the server, so there is nothing to price",
                code="nothing-to-compare",
                hint="change something else, or choose from the default list with --ladder",
            )


class _Pricing:
    """A price list that is being measured."""

    def __init__(self, session: Session, request: PriceRequest, against: Priced | None) -> None:
        self._session = session
        self._request = request
        self._against = against
        self._began_s = time.monotonic()
        self._noise: Noise | None = None
        self._gains: dict[str, GainTrial] = {}
        self._losses = LossTable()
        self.ended_by = "the price list ended early"
        """The reason why entries are missing; '' once the list is complete."""

    def run(self) -> None:
        """Measure gains, then losses."""
        session, request = self._session, self._request
        gain_s = request.budget_s * (_GAIN_SHARE if request.cuts else 1.0)
        rng = random.Random(session.spec.load.seed)
        seconds = slice_seconds(request.candidates, gain_s)
        self._noise = begin_gains(session, seconds, rng)
        deadline_s = self._began_s + gain_s
        for candidate, trial in measure_gains(
            session, request.candidates, seconds, self._noise, deadline_s, rng
        ):
            self._gains[candidate.id] = trial
            self.record()
        if request.cuts:
            deadline_s = self._began_s + request.budget_s
            plan = DrillPlan(request.cuts, request.seed, deadline_s, request.budget_given)
            drill_all(session, request.candidates, plan, self._losses, self.record)
        self.ended_by = ""

    def record(self) -> Priced | None:
        """Record and return the list so far, so that it survives a kill; None before the noise
        floor is known."""
        priced = self._priced()
        if priced is not None:
            store(self._session.recorder, priced.result)
        return priced

    def _priced(self) -> Priced | None:
        if self._noise is None:
            return None
        priced = Priced(self._result(self._noise), self._losses.drills)
        if self._against is None:
            return priced
        return replace(priced, result=compared(priced, self._against))

    def _result(self, noise: Noise) -> PriceResult:
        run = self._session.reader()
        prices = tuple(self._price(candidate) for candidate in self._request.candidates)
        void = [trial.why_none for trial in self._gains.values() if trial.void]
        ended_by = [self.ended_by] if self.ended_by else []
        reasons = (*ended_by, *void, *distrust(run, []), *_faults_missing(prices))
        measure = _measure(self._gains, noise)
        return PriceResult(
            schema_version=SCHEMA_VERSION,
            run_file=str(run.path),
            trustworthy=not reasons,
            distrust=reasons,
            incidents=incidents(run),
            server_version=str(run.run.server.get("version", "")),
            noise_floor=noise_of(noise, measure),
            compared=measure,
            cuts=self._request.cuts,
            seed=self._request.seed,
            prices=prices,
            verdict=f"no verdict: {self.ended_by}" if self.ended_by else verdict(prices),
            elapsed_s=round(time.monotonic() - self._began_s, 1),
        )

    def _price(self, candidate: Candidate) -> Price:
        trial = self._gains.get(candidate.id)
        if trial is None and not candidate.is_baseline:
            trial = GainTrial(None, f"not measured: {self.ended_by}")
        gain = trial.as_result() if trial else None
        losses = self._losses.losses(candidate, self.ended_by or "no cuts were requested")
        return Price(
            candidate=candidate.id,
            title=candidate.title,
            durability_class=candidate.assessment.durability_class,
            remedy=candidate.remedy,
            change=candidate.change.to_json(),
            base=candidate.base.to_json(),
            bound=candidate.assessment.bound,
            gain=gain,
            losses=losses,
            sentence=sentence(gain, losses),
        )


def _measure(gains: Mapping[str, GainTrial], noise: Noise) -> Measure:
    """Return the figure by which the last trial was decided."""
    measures = [trial.answer.measure for trial in gains.values() if trial.answer]
    return measures[-1] if measures else noise.measure


def _faults_missing(prices: Sequence[Price]) -> list[str]:
    return [
        f"{loss.fault} under {price.title}: the fault did not happen in"
        f" {loss.cuts - loss.happened} of {loss.cuts} cuts"
        for price in prices
        for loss in price.losses
        if isinstance(loss, Drilled) and loss.happened < loss.cuts
    ]


def check_promises(result: PriceResult) -> None:
    """Raise ThresholdError if more was lost than documented."""
    if titles := broken_promises(result.prices):
        raise ThresholdError(
            f"lost more than documented: {'; '.join(titles)}",
            code="worse-than-documented",
            hint=f"pgdyno report {result.run_file} shows which cuts",
        )


def broken_promises(prices: Sequence[Price]) -> list[str]:
    """Return the titles of candidates that lost commits or were damaged, against their
    documentation.

    A loss that reaches back further than documented is no broken promise; the list shows it.
    """
    return [price.title for price in prices if any(map(_breaks_promise, price.losses))]


def _breaks_promise(loss: Loss) -> bool:
    if not isinstance(loss, Drilled):
        return False
    damaged = loss.corrupt + loss.refused > 0
    return bool(loss.worse_than_bound and (damaged or loss.bound_ms == 0))
