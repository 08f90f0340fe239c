"""The story of a run, for the terminal and the page alike: verdict, trust, steps, before and after.

Everything comes from the run file. What a run did not get to (a trial without pairs, a run still
going on) is None, and nobody downstream shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from pgdyno.diagnose.groups import group_accounts
from pgdyno.record import FindingRow, RunFile, RunInfo, Trial, throughput_tps
from pgdyno.record.incidents import Incident, incidents
from pgdyno.remedy import (
    Assessment,
    Circumstances,
    Remedy,
    assess,
    catalogue,
    circumstances_recorded,
)
from pgdyno.results import Result, load
from pgdyno.results.investigate import InvestigateResult, RemedyPrice
from pgdyno.results.price import Price, PriceResult
from pgdyno.spec.change import Change
from pgdyno.stats.words import change_words, effect_words, ratio_words
from pgdyno.trial.result import emulated_disks

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Ratio:
    """A measured ratio with its 95 % interval."""

    ratio: float
    lo: float
    hi: float

    def __str__(self) -> str:
        return effect_words(self.ratio, self.lo, self.hi)


@dataclass(frozen=True)
class Attempt:
    """One change, tried: what it is, what it was said to give, what it gave, what became of it."""

    trial: Trial
    change: Change
    """This change alone, without what was kept before it."""
    remedy: Remedy | None
    """What it was tried as."""
    assessment: Assessment
    """What the catalogue knows of it, against what was in force."""
    throughput: Ratio | None
    latency_p99: Ratio | None
    slices: Mapping[str, list[int]]
    """Ids of the slices of side ``a`` (as it was) and ``b`` (changed)."""
    p99_before_ms: float | None
    p99_after_ms: float | None
    """Of all responses in the slices of either side."""

    @property
    def title(self) -> str:
        """The change in a few words; of a recheck, what was taken back."""
        return self.trial.title.removeprefix("without ")

    @property
    def durability_class(self) -> str:
        """D0 to D3, or "unknown"; what was recorded goes before the catalogue of today."""
        return self.trial.durability_class or self.assessment.durability_class

    @property
    def loses_nothing(self) -> bool:
        """Whether no durability is given up for it."""
        return self.durability_class == "D0"

    @property
    def rate_held(self) -> bool:
        """Whether clients held a rate on both sides, so that p99 is what was compared."""
        return self.trial.compared == "latency_p99"

    @property
    def outcome(self) -> str:
        """The decision, or the verdict of a trial that nothing was decided by."""
        return self.trial.decision or self.trial.verdict or "not finished"


@dataclass(frozen=True)
class Step:
    """What the diagnosis said at one point of the chain, and what was tried because of it."""

    number: int
    finding: str
    sentence: str
    attempts: list[Attempt]


@dataclass(frozen=True)
class State:
    """How the server did under one setting. ``slice_ids`` is None for all of the run."""

    slice_ids: list[int] | None
    throughput_tps: float
    latency_p99_ms: float


class RunSummary:
    """All of it, each part read when first asked for."""

    def __init__(self, run: RunFile) -> None:
        self._run = run
        self.info = run.run
        self.findings = run.findings()

    @property
    def emulated(self) -> str | None:
        """Which emulated disks figures come from, of the spec or of a change; None: none."""
        return emulated_disks(self._run)

    @cached_property
    def result(self) -> Result | None:
        """The recorded result; None where there is none, or none that can be read any more."""
        return load(self._run)

    @cached_property
    def incidents(self) -> list[Incident]:
        """What happened to the server that nobody asked for."""
        return incidents(self._run)

    @cached_property
    def connected(self) -> dict[str, int]:
        """By client group, how many clients had a connection, of those where some had none."""
        kinds = ("run", "baseline", "noise", "trial")
        ids = [each.id for kind in kinds for each in self._run.slices(kind=kind)]
        accounts = group_accounts(self._run, ids or None)
        return {
            each.name: each.clients_connected
            for each in accounts
            if each.clients_connected < each.clients
        }

    @cached_property
    def all_attempts(self) -> list[Attempt]:
        """Every trial, the noise floor's and the rechecks among them."""
        return [_attempt(self._run, trial) for trial in self._run.trials()]

    @property
    def attempts(self) -> list[Attempt]:
        """Every remedy or comparison, in the order in which they were tried."""
        return [a for a in self.all_attempts if a.trial.kind in ("remedy", "compare", "price")]

    def price_of(self, attempt: Attempt) -> Price | RemedyPrice | None:
        """Return the entry of the result's price list for a change."""
        if not isinstance(self.result, PriceResult | InvestigateResult):
            return None
        prices: Sequence[Price | RemedyPrice] = self.result.prices or ()
        return next((price for price in prices if price.title == attempt.title), None)

    @property
    def rechecks(self) -> list[Attempt]:
        """Kept remedies taken back in turn."""
        return [a for a in self.all_attempts if a.trial.kind == "recheck"]

    @property
    def noise(self) -> Attempt | None:
        """The trial of identical slices, if it came to an end."""
        return next(
            (a for a in self.all_attempts if a.trial.kind == "noise" and a.throughput), None
        )

    @property
    def noise_half_width(self) -> float | None:
        """How far identical slices lie apart, as a share: the interval's farther end, reckoned on
        the ratio's logarithm as verdicts do it."""
        said = (self.info.result.get("noise_floor") or {}).get("ci95")
        if said is None and self.noise:
            effect = self.noise.latency_p99 if self.noise_of_p99 else self.noise.throughput
            said = (effect.lo, effect.hi) if effect else None
        return max(1 / said[0], said[1]) - 1 if said else None

    @property
    def noise_of_p99(self) -> bool:
        """Whether the noise floor is that of p99, and not of throughput."""
        of = (self.info.result.get("noise_floor") or {}).get("of")
        return of == "latency_p99" if of else bool(self.noise and self.noise.rate_held)

    @property
    def comparison(self) -> Attempt | None:
        """What ``pgdyno compare`` compared."""
        return next((a for a in self.all_attempts if a.trial.kind == "compare"), None)

    @cached_property
    def steps(self) -> list[Step]:
        """Remedies grouped by the finding that suggested them."""
        return _steps(self.findings, [a for a in self.attempts if a.trial.kind == "remedy"])

    @property
    def limits(self) -> list[FindingRow]:
        """What the last diagnosis found, the limit first."""
        last = max((finding.step for finding in self.findings), default=0)
        found = [f for f in self.findings if f.step == last and f.rank is not None]
        return sorted(found, key=lambda finding: finding.rank or 0)

    @cached_property
    def before(self) -> State | None:
        """At the start: the baseline, or the first trial's unchanged side, or all there is."""
        result, compared = self.info.result, self.comparison
        if compared is not None and compared.slices["a"] and compared.throughput:
            tps, p99_ms = compared.trial.baseline_tps, compared.p99_before_ms
            return State(compared.slices["a"], tps or 0.0, p99_ms or 0.0)
        return self._state(
            self._ids_before(),
            result.get("baseline_tps"),
            result.get("baseline_latency_ms_p99"),
        )

    @cached_property
    def after(self) -> State | None:
        """At the end, with what was kept in force."""
        result, compared = self.info.result, self.comparison
        if compared is not None and compared.slices["b"] and compared.throughput:
            tps, p99_ms = compared.trial.changed_tps, compared.p99_after_ms
            return State(compared.slices["b"], tps or 0.0, p99_ms or 0.0)
        return self._state(
            self._ids_after(), result.get("final_tps"), result.get("final_latency_ms_p99")
        )

    @property
    def changed(self) -> bool:
        """Whether the end is another setting than the start."""
        return self._ids_before() != self._ids_after()

    def budget_states(self) -> dict[str, list[int] | None]:
        """Name → slices (None: all of the run) for which response time is taken apart."""
        if self.before is None or self.after is None:
            return {}
        if not self.changed:
            name = "all of the run" if self.before.slice_ids is None else "measured"
            return {name: self.before.slice_ids}
        return {"before": self.before.slice_ids, "after": self.after.slice_ids}

    @property
    def gain_words(self) -> str:
        """What all of it gave in throughput: of a comparison the paired effect; '' for nothing."""
        compared, before, after = self.comparison, self.before, self.after
        if compared is not None and compared.throughput is not None:
            return "held by the clients" if compared.rate_held else str(compared.throughput)
        if before is None or after is None or not before.throughput_tps:
            return ""
        return ratio_words(after.throughput_tps / before.throughput_tps)

    @property
    def p99_gain_words(self) -> str:
        """What became of p99: of a comparison the paired effect; '' for nothing."""
        compared, before, after = self.comparison, self.before, self.after
        if compared is not None and compared.latency_p99 is not None:
            return str(compared.latency_p99)
        if before is None or after is None or not before.latency_p99_ms:
            return ""
        return change_words(after.latency_p99_ms / before.latency_p99_ms)

    @property
    def verdict(self) -> str:
        """The run in one sentence, without a period."""
        said = self.info.result.get("verdict")
        if isinstance(said, Mapping):
            said = said.get("sentence")
        if isinstance(said, str) and said:
            return said
        if self.comparison is not None and self.comparison.trial.sentence:
            return f"{self.comparison.title}: {self.comparison.trial.sentence}"
        if self.limits:
            return self.limits[0].sentence
        return _VERDICT_BY_STATUS.get(
            self.info.status, "nothing that holds this load back is known"
        )

    @property
    def next_limit(self) -> tuple[str, str] | None:
        """Finding and sentence of what limits in the end."""
        said = self.info.result.get("next_limit")
        if isinstance(said, Mapping):
            return str(said.get("finding", "")), str(said.get("sentence", ""))
        return (self.limits[0].finding, self.limits[0].sentence) if self.limits else None

    @cached_property
    def distrust(self) -> list[str]:
        """Why the numbers should not be relied on, without periods; empty when they may be."""
        reasons = [str(reason) for reason in self.info.result.get("distrust", [])]
        if not reasons and self.info.result.get("trustworthy") is False:
            reasons.append("the run was judged not to be trustworthy")
        if not reasons and not self._run.ledger().balanced:
            reasons.append("the ledger does not add up")
        if self.info.status == "broken":
            reasons.append(self.info.status_detail or "the run is marked broken")
        return list(dict.fromkeys(reasons))

    def _ids_before(self) -> list[int] | None:
        for kind in ("run", "baseline"):
            if ids := [s.id for s in self._run.slices(kind=kind)]:
                return ids
        tried = [a for a in self.attempts if a.slices["a"]]
        return tried[0].slices["a"] if tried else None

    def _ids_after(self) -> list[int] | None:
        """Slices of the last trial that had just what was kept in force."""
        compared = self.comparison
        if compared is not None:
            return compared.slices["b"] or self._ids_before()
        kept = self._kept()
        if not kept:
            return self._ids_before()
        for attempt in reversed(self.all_attempts):
            slices = [each for pair in self._run.pairs(attempt.trial.id) for each in pair]
            if ids := [s.id for s in slices if s.change == kept]:
                return ids
        return self._ids_before()

    @property
    def kept(self) -> Assessment:
        """All that is in force in the end, as one change."""
        return assess(Change.from_json(dict(self._kept())), in_force(self.info))

    @property
    def before_all(self) -> Change:
        """What is known to have been in force in the user's own server and clients."""
        groups = self.info.spec.get("clients") or []
        theirs = (self.info.spec.get("server") or {}).get("kind") == "existing"
        return Change(
            settings=dict(self.info.server.get("settings") or {}) if theirs else {},
            pool_max={g["name"]: (g.get("pool") or {}).get("max") for g in groups},
        )

    def _kept(self) -> Mapping[str, Any]:
        """The change that is in force in the end, as JSON."""
        said = self.info.result.get("kept")
        if isinstance(said, Mapping):
            return said
        state = Change()
        for attempt in self.attempts:
            if attempt.trial.decision == "kept":
                state = attempt.change.over(state)
        return state.to_json()

    def _state(
        self, slice_ids: list[int] | None, tps: float | None, p99_ms: float | None
    ) -> State | None:
        if self._run.ledger(slice_ids).done == 0:
            return None
        measured_p99 = self._run.histogram("response", slice_ids).percentile(99) / 1e6
        return State(
            slice_ids=slice_ids,
            throughput_tps=throughput_tps(self._run, slice_ids) if tps is None else tps,
            latency_p99_ms=measured_p99 if p99_ms is None else p99_ms,
        )


_VERDICT_BY_STATUS = {
    "running": "the run is still going on",
    "interrupted": "the run was interrupted before it could be judged",
    "failed": "the run failed before it could be judged",
    "broken": "the run is broken: its numbers do not add up",
}


def _steps(findings: Iterable[FindingRow], remedies: Sequence[Attempt]) -> list[Step]:
    """Attempts in the order in which they were made; those for the same finding together."""
    known = list(findings)
    steps: list[Step] = []
    for attempt in remedies:
        finding = attempt.trial.finding or ""
        sentence = _said_before(known, finding, attempt.trial.step)
        if not steps or (steps[-1].finding, steps[-1].sentence) != (finding, sentence):
            steps.append(Step(len(steps) + 1, finding, sentence, []))
        steps[-1].attempts.append(attempt)
    return steps


def _said_before(findings: Sequence[FindingRow], finding: str, step: int) -> str:
    """What the last diagnosis before trial number ``step`` said of a finding.

    A finding's step is the number of trials before it, so it is below that of its trials.
    """
    said = [f for f in findings if f.finding == finding and f.step < max(step, 1)]
    return said[-1].sentence if said else ""


def _attempt(run: RunFile, trial: Trial) -> Attempt:
    slices = run.slices(trial_id=trial.id)
    pairs = run.pairs(trial.id)
    sides = {"a": [a.id for a, _ in pairs], "b": [b.id for _, b in pairs]}
    base = next((Change.from_json(s.change) for s in slices if s.side == "a"), Change())
    change = without(Change.from_json(trial.change), base)
    assessment = assess(change, in_force(run.run).under(base.without(change)))
    return Attempt(
        trial=trial,
        change=change,
        remedy=catalogue().get(trial.remedy) if trial.remedy else assessment.remedy,
        assessment=assessment,
        throughput=_ratio(
            trial.throughput_ratio, trial.throughput_ratio_lo, trial.throughput_ratio_hi
        ),
        latency_p99=_ratio(
            trial.latency_p99_ratio, trial.latency_p99_ratio_lo, trial.latency_p99_ratio_hi
        ),
        slices=sides,
        p99_before_ms=_p99_ms(run, sides["a"]),
        p99_after_ms=_p99_ms(run, sides["b"]),
    )


def in_force(info: RunInfo) -> Circumstances:
    """What was in force in a run beside its changes."""
    return circumstances_recorded(info.spec, info.server.get("settings"))


def _p99_ms(run: RunFile, slice_ids: list[int]) -> float | None:
    """p99 of the response times in some slices; None if nothing ended in them."""
    return run.histogram("response", slice_ids).percentile(99) / 1e6 or None if slice_ids else None


def _ratio(ratio: float | None, lo: float | None, hi: float | None) -> Ratio | None:
    if ratio is None:
        return None
    return Ratio(ratio, ratio if lo is None else lo, ratio if hi is None else hi)


def without(change: Change, base: Change) -> Change:
    """What ``change`` has that ``base`` has not, or has otherwise."""
    differing = {}
    for each in fields(Change):
        new, old = getattr(change, each.name), getattr(base, each.name)
        differing[each.name] = {n: v for n, v in new.items() if n not in old or old[n] != v}
    return Change(**differing)
