"""The price list: gains first, then drills, within one budget of time, as one result."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pgdyno.conduct import Session
from pgdyno.dimension import spec_with
from pgdyno.errors import Interrupted, PgdynoError, UsageError
from pgdyno.price._gain import Gain, begin_gains, check_real_disk, measure_gains, slice_seconds
from pgdyno.price._loss import Drilled, DrillPlan, drill_all
from pgdyno.price.candidates import Candidate
from pgdyno.price.sentences import sentence, verdict
from pgdyno.price.two_servers import Priced, comparison
from pgdyno.results import store
from pgdyno.results.common import Measure
from pgdyno.results.loss import Drilled as DrilledLoss
from pgdyno.results.loss import Loss
from pgdyno.results.price import Price, PriceResult
from pgdyno.spec import Change, Spec
from pgdyno.trial.compare import noise_of
from pgdyno.trial.pairs import Noise
from pgdyno.trial.result import incidents_of
from pgdyno.trial.trust import distrust

SCHEMA_VERSION = 1
SECONDS_PER_CANDIDATE = 65.0
"""Default time for each candidate, the baseline among them: the whole ladder takes 13 minutes."""
_GAIN_SHARE = 0.55


@dataclass(frozen=True)
class Asked:
    """What is to be priced, and how long it may take."""

    candidates: Sequence[Candidate]
    cuts: int
    """Of each drill, at most; 0: no drills."""
    budget_s: float
    seed: int


def default_budget_s(candidates: Sequence[Candidate], cuts: int) -> float:
    """Time for so many candidates; without drills, what their gains take."""
    share = 1.0 if cuts else _GAIN_SHARE
    return SECONDS_PER_CANDIDATE * len(candidates) * share


def check_price(spec: Spec, candidates: Sequence[Candidate]) -> None:
    """Raise :class:`UsageError` for what cannot be priced, before anything is started."""
    if spec.server.kind == "existing":
        raise UsageError(
            "prices are measured by crashing the server, and pgdyno crashes only servers that it"
            " started",
            code="not-ours",
            hint="leave the connection string out; --pg-bindir names the server's programs",
        )
    check_real_disk(spec)
    for candidate in candidates:
        candidate.spec(spec)


def price(session: Session, asked: Asked, against: Priced | None = None) -> Priced:
    """Measure and drill ``asked`` under the session's load; the result, also recorded.

    ``against`` is the same list on another server, kept in the result for comparison. However this
    ends, the run file has what was measured until then. Raises UsageError at once for a setting
    that this server does not have, and for a candidate that changes nothing.
    """
    _check_candidates(session, asked.candidates)
    work = _Work(session, asked, against)
    try:
        work.carry_out()
    except (PgdynoError, Interrupted) as problem:
        work.ended_by = "interrupted" if isinstance(problem, Interrupted) else problem.message
        raise
    finally:
        priced = work.record()
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
                f"{candidate.title}: the server has that already, so there is nothing to price",
                code="nothing-to-compare",
                hint="name something that differs, or choose among the default list with --ladder",
            )


class _Work:
    """A price list in the making."""

    def __init__(self, session: Session, asked: Asked, against: Priced | None) -> None:
        self._session = session
        self._asked = asked
        self._against = against
        self._began_s = time.monotonic()
        self._noise: Noise | None = None
        self._gains: dict[str, Gain] = {}
        self._drilled = Drilled()
        self.ended_by = "the price list broke off"
        """Why the rest is missing, until there is none."""

    def carry_out(self) -> None:
        """Gains, then drills."""
        session, asked = self._session, self._asked
        gain_s = asked.budget_s * (_GAIN_SHARE if asked.cuts else 1.0)
        rng = random.Random(session.spec.load.seed)
        seconds = slice_seconds(asked.candidates, gain_s)
        self._noise = begin_gains(session, seconds, rng)
        deadline_s = self._began_s + gain_s
        for candidate, gain in measure_gains(
            session, asked.candidates, seconds, self._noise, deadline_s, rng
        ):
            self._gains[candidate.id] = gain
            self.record()
        if asked.cuts:
            plan = DrillPlan(asked.cuts, asked.seed, self._began_s + asked.budget_s)
            drill_all(session, asked.candidates, plan, self._drilled, self.record)
        self.ended_by = ""

    def record(self) -> Priced | None:
        """Keep the list as far as it has come, which a price list that is killed then has; None
        while not even the noise floor is known."""
        priced = self._priced()
        if priced is not None:
            store(self._session.recorder, priced.result)
        return priced

    def _priced(self) -> Priced | None:
        if self._noise is None:
            return None
        priced = Priced(self._result(self._noise), self._drilled.drills)
        if self._against is None:
            return priced
        more = comparison(priced, self._against)
        return replace(priced, result=priced.result.model_copy(update=more))

    def _result(self, noise: Noise) -> PriceResult:
        run = self._session.reader()
        rows = tuple(self._row_of(candidate) for candidate in self._asked.candidates)
        void = [gain.why for gain in self._gains.values() if gain.void]
        broken_off = [self.ended_by] if self.ended_by else []
        reasons = (*broken_off, *void, *distrust(run, []), *_faults_missing(rows))
        compared = _compared(self._gains, noise)
        said = f"no verdict: {self.ended_by}" if self.ended_by else None
        return PriceResult(
            schema_version=SCHEMA_VERSION,
            run_file=str(run.path),
            trustworthy=not reasons,
            distrust=reasons,
            incidents=incidents_of(run),
            server_version=str(run.run.server.get("version", "")),
            noise_floor=noise_of(noise, compared),
            compared=compared,
            cuts=self._asked.cuts,
            seed=self._asked.seed,
            prices=rows,
            verdict=said or verdict([row.to_json() for row in rows]),
            elapsed_s=round(time.monotonic() - self._began_s, 1),
        )

    def _row_of(self, candidate: Candidate) -> Price:
        gain = self._gains.get(candidate.id)
        if gain is None and not candidate.is_baseline:
            gain = Gain(None, f"not measured: {self.ended_by}")
        why = self.ended_by or "no cuts were asked for"
        return _row(candidate, gain, self._drilled.losses(candidate, why))


def _row(candidate: Candidate, gain: Gain | None, losses: Sequence[Mapping[str, Any]]) -> Price:
    row = {
        "candidate": candidate.id,
        "title": candidate.title,
        "durability_class": candidate.assessment.durability_class,
        "remedy": candidate.remedy,
        "change": candidate.change.to_json(),
        "base": candidate.base.to_json(),
        "bound": candidate.assessment.bound,
        "gain": gain.to_json() if gain else None,
        "losses": losses,
    }
    return Price(**row, sentence=sentence(row))


def _compared(gains: Mapping[str, Gain], noise: Noise) -> Measure:
    """What the trials were decided by."""
    measures = [gain.answer.measure for gain in gains.values() if gain.answer]
    return measures[-1] if measures else noise.measure


def _faults_missing(rows: Sequence[Price]) -> list[str]:
    return [
        f"{loss.fault} under {row.title}: the fault did not happen in"
        f" {loss.cuts - loss.happened} of {loss.cuts} cuts"
        for row in rows
        for loss in row.losses
        if isinstance(loss, DrilledLoss) and loss.happened < loss.cuts
    ]


def broken_promises(prices: Sequence[Price]) -> list[str]:
    """Titles of what is documented to lose nothing, or to stay sound, and did not.

    A loss that reaches back a little further than documented is a price, and the list says so.
    """
    return [row.title for row in prices if any(map(_breaks_promise, row.losses))]


def _breaks_promise(loss: Loss) -> bool:
    if not isinstance(loss, DrilledLoss):
        return False
    damaged = loss.corrupt + loss.refused > 0
    return bool(loss.worse_than_bound and (damaged or loss.bound_ms == 0))
