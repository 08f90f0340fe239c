"""Changes that were tried: prediction, effect, levels before and after, decision.

Everything comes from the run file. What is not recorded, such as the effect of a trial without
pairs, is None.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import fields

from pgdyno import numbers
from pgdyno.record import RunFile, RunInfo, Trial, TrialDecision, TrialKind
from pgdyno.remedy import (
    Assessment,
    Circumstances,
    Remedy,
    assess,
    catalogue,
    circumstances_recorded,
)
from pgdyno.results.common import Postponed
from pgdyno.spec.change import Change
from pgdyno.stats import geometric_mean
from pgdyno.trial.recorded import postponed


class Ratio(Struct, frozen=True):
    """A measured ratio with its 95 % interval."""

    ratio: float
    lo: float
    hi: float

    def __str__(self) -> str:
        return numbers.effect(self.ratio, self.lo, self.hi)


class LevelPair(Struct, frozen=True):
    """A figure without and with a change, from the same pairs as its ratio."""

    before: float
    """Geometric mean of the unchanged slices."""
    effect: Ratio

    @property
    def after(self) -> float:
        """Geometric mean of the changed slices."""
        return self.before * self.effect.ratio

    @property
    def lo(self) -> float:
        """Lower end of the interval of ``after``."""
        return self.before * self.effect.lo

    @property
    def hi(self) -> float:
        """Upper end of the interval of ``after``."""
        return self.before * self.effect.hi


class Attempt(Struct, frozen=True):
    """A change that was tried: its prediction, its measured effect and the decision."""

    trial: Trial
    title: str
    """The change in a few words; of a recheck, the change that was taken back."""
    change: Change
    """This change alone, without the changes that were kept before it."""
    remedy: Remedy | None
    """The remedy that it was tried as."""
    assessment: Assessment
    """The catalogue's facts about it, on the server as it was then."""
    throughput: Ratio | None
    latency_p99: Ratio | None
    slices: Mapping[str, list[int]]
    """Ids of the slices of side ``a`` (baseline) and ``b`` (changed)."""
    p99_before_ms: float | None
    """Geometric mean of the p99 of the unchanged slices."""
    postponed: tuple[Postponed, ...] = ()
    """Work that its slices postponed and did at their end."""

    @property
    def durability_class(self) -> str:
        """D0 to D3, or "unknown"; a recorded class takes precedence over today's catalogue."""
        return self.trial.durability_class or self.assessment.durability_class

    @property
    def loses_nothing(self) -> bool:
        """True if the change gives up no durability."""
        return self.durability_class == "D0"

    @property
    def tps(self) -> LevelPair | None:
        """Throughput without and with the change."""
        return _levels(self.trial.baseline_tps, self.throughput)

    @property
    def p99_ms(self) -> LevelPair | None:
        """p99 of the response time without and with the change."""
        return _levels(self.p99_before_ms, self.latency_p99)

    @property
    def rate_held(self) -> bool:
        """True if clients held a rate on both sides, so that p99 was compared."""
        return self.trial.compared == "latency_p99"

    @property
    def was_measured(self) -> bool:
        """False if it was decided that the change is not tried."""
        return self.trial.decision is None or self.trial.decision.was_measured

    @property
    def gains(self) -> bool:
        """True if it was decided that the change is worth its price."""
        return self.trial.decision is not None and self.trial.decision.gains

    @property
    def outcome(self) -> str:
        """The decision, or the verdict of a trial without a decision."""
        return self.trial.decision or self.trial.verdict or "not finished"


def attempt_of(run: RunFile, trial: Trial) -> Attempt:
    """Return a trial as an attempt at a change."""
    pairs = run.pairs(trial.id)
    sides = {"a": [a.id for a, _ in pairs], "b": [b.id for _, b in pairs]}
    base, change = _base_and_change(run, trial)
    assessment = assess(change, in_force(run.run).under(base.without(change)))
    return Attempt(
        trial=trial,
        title=_title(run, trial, change),
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
        postponed=postponed(run, sides["a"], sides["b"]),
    )


def _base_and_change(run: RunFile, trial: Trial) -> tuple[Change, Change]:
    """Return the baseline's difference from the spec, and the change that was added to it."""
    slices = run.slices(trial_id=trial.id)
    base = next((Change.from_json(s.change) for s in slices if s.side == "a"), Change())
    return base, difference(Change.from_json(trial.change), base)


def _title(run: RunFile, trial: Trial, change: Change) -> str:
    """Return the title of a change, which a recheck has from the trial after which it was kept."""
    if trial.kind is not TrialKind.RECHECK:
        return trial.title
    kept = (each for each in run.trials() if each.decision is TrialDecision.KEPT)
    same = (each.title for each in kept if _base_and_change(run, each)[1] == change)
    return next(same, trial.title)


def in_force(info: RunInfo) -> Circumstances:
    """Return the circumstances of a run without its changes."""
    return circumstances_recorded(info.spec, info.server.get("settings"))


def _p99_ms(run: RunFile, slice_ids: list[int]) -> float | None:
    """Return the geometric mean of the p99 of some slices; None if no transaction ended in one."""
    values = [run.histogram("response", [each]).percentile(99) / 1e6 for each in slice_ids]
    return geometric_mean(values) if values and all(values) else None


def _levels(before: float | None, effect: Ratio | None) -> LevelPair | None:
    return LevelPair(before, effect) if before and effect else None


def _ratio(ratio: float | None, lo: float | None, hi: float | None) -> Ratio | None:
    if ratio is None:
        return None
    return Ratio(ratio, ratio if lo is None else lo, ratio if hi is None else hi)


def difference(change: Change, base: Change) -> Change:
    """Return the part of ``change`` that is not in ``base`` or has another value there."""
    differing = {}
    for each in fields(Change):
        new, old = getattr(change, each.name), getattr(base, each.name)
        differing[each.name] = {n: v for n, v in new.items() if n not in old or old[n] != v}
    return Change(**differing)
