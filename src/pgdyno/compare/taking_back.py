"""The search, under load, for those of some settings that make the difference of all of them.

Settings are taken back in groups (``_elimination.py``), in fresh interleaved pairs of the others
with and without them. Each of these trials holds its level by itself, and there are many, so that a
decision about a setting may be wrong by chance; nothing is claimed of them together.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.compare._elimination import Elimination, Unit, expected_trials
from pgdyno.conduct import Session
from pgdyno.errors import TrustError
from pgdyno.record import TrialKind
from pgdyno.remedy import Circumstances, assess
from pgdyno.spec import Change
from pgdyno.stats import PAIRS_MIN, PairedEffect
from pgdyno.trial.pairs import Noise, TrialAnswer, run_trial
from pgdyno.trial.question import PAIRS_MAX, Question, question_of

_PAIRS_AGAIN_MIN = 2 * PAIRS_MIN
"""For a group that is tried once more, as fewer would leave it open again."""


_OVERHEAD_S = 1.2
"""Time around a slice: the change, new sessions of some, and reading the probes."""
_SLICE_SECONDS_MIN = 0.8


def seconds_within(units: Sequence[Unit], budget_s: float, most_s: float) -> float:
    """Return the length of slices with which so many units are decided within ``budget_s``, about
    one in five of them kept: from 0.8 s to ``most_s``."""
    slices = 2 * PAIRS_MIN * max(expected_trials(len(units)), 1.0)
    return min(max(budget_s / slices - _OVERHEAD_S, _SLICE_SECONDS_MIN), most_s)


@dataclass
class TakenBack:
    """A trial of settings that were taken back."""

    names: tuple[str, ...]
    answer: TrialAnswer | None
    matters: bool
    why: str = ""


class Remaining(Struct, frozen=True):
    """The settings that are left when a search ends."""

    gone: frozenset[str]
    """Those that were not shown to make a difference."""
    undecided: tuple[str, ...]
    """Those that were not decided for lack of time."""
    trials_expected: float
    """About how many more trials would decide them."""

    def of(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are left."""
        return [name for name in names if name not in self.gone]


@dataclass
class TakingBack:
    """A search under way, after the trial of all settings together."""

    session: Session
    settings: Mapping[str, str]
    units: Sequence[Unit]
    """Their names, in the order in which they are taken back."""
    server: Circumstances
    noise: Noise
    seconds: float
    """Length of a slice, at least; a change that shows its effect later has longer ones."""
    rng: random.Random
    state: Change = field(default_factory=Change)
    """The change that both sides of each trial have as well."""
    pairs_max: int | None = None
    """Limit for each trial."""
    taken: list[TakenBack] = field(default_factory=list)
    """The trials so far."""

    def search(self, ends_s: float) -> Remaining:
        """Take settings back until all are decided, or until ``ends_s`` on the monotonic clock."""
        elimination = Elimination(self.units)
        while (units := elimination.next()) is not None:
            left_s = ends_s - time.monotonic()
            tried = tuple(name for unit in units for name in unit)
            question = self._question(tried, elimination.gone)
            pairs = _PAIRS_AGAIN_MIN if elimination.tries_again else PAIRS_MIN
            if left_s < pairs * question.pair_seconds:
                break
            share_s = left_s / max(elimination.trials_expected, 1.0)
            taken = self._take_back(tried, question, time.monotonic() + share_s)
            self.taken.append(taken)
            elimination.decide(matters=taken.matters, gain_max=_gain_max(taken))
        return Remaining(
            gone=frozenset(name for unit in elimination.gone for name in unit),
            undecided=tuple(name for unit in elimination.undecided for name in unit),
            trials_expected=elimination.trials_expected,
        )

    def of(self, names: Iterable[str]) -> dict[str, str]:
        """Return some of the settings, with their values."""
        wanted = {*names}
        return {name: value for name, value in self.settings.items() if name in wanted}

    def _question(self, names: Sequence[str], gone: Sequence[Unit]) -> Question:
        """Return the question of the effect of some settings beside all others that are left."""
        out = {*names, *(name for unit in gone for name in unit)}
        left = Change(settings=self.of(name for name in self.settings if name not in out))
        rest = left.over(self.state)
        return question_of(
            assess(Change(settings=self.of(names)), self.server.under(rest)),
            kind=TrialKind.LINE,
            title=title_of_names(names),
            seconds=self.seconds,
            state=rest,
            pairs_max=self.pairs_max or PAIRS_MAX,
        )

    def _take_back(
        self, names: tuple[str, ...], question: Question, deadline_s: float
    ) -> TakenBack:
        self.session.watcher.phase(f"taking back {title_of_names(names)}")
        try:
            answer = run_trial(
                self.session, question, noise=self.noise, deadline_s=deadline_s, rng=self.rng
            )
        except TrustError as problem:
            return TakenBack(names, None, matters=True, why=problem.message)
        outcome = answer.verdict.outcome
        # Where neither side can be compared, or one gains and another loses, the settings stay.
        matters = outcome in ("better", "mixed", "not comparable")
        return TakenBack(names, answer, matters, answer.verdict.sentence)


def _gain_max(taken: TakenBack) -> float | None:
    """Return the largest gain that inconclusive pairs leave open, as a log ratio; None if that is
    too small to matter, or they have decided."""
    answer = taken.answer
    if answer is None or answer.verdict.outcome != "inconclusive":
        return None
    gain_max = -lost(compared(answer), higher=answer.measure == "throughput")[0]
    return gain_max if gain_max > math.log1p(answer.matters.of(answer.measure)) else None


def title_of_names(names: Sequence[str]) -> str:
    """Return settings in a few words."""
    if len(names) <= 2:
        return " and ".join(names)
    return f"{len(names)} settings, {names[0]} to {names[-1]}"


def compared(answer: TrialAnswer) -> PairedEffect:
    """Return the effect on the figure that a verdict is about."""
    return answer.throughput if answer.measure == "throughput" else answer.latency_p99


def lost(effect: PairedEffect, *, higher: bool) -> tuple[float, float]:
    """Return the bounds of a loss, as log ratios; ``higher``: more is better."""
    lo, hi = math.log(effect.lo), math.log(effect.hi)
    return (-hi, -lo) if higher else (lo, hi)
