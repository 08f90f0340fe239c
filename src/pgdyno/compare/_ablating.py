"""Which lines of a profile make the difference, and the shortest profile that keeps it.

Lines are taken back in groups (``taking_back.py``). The claim rests on pairs that are measured at
the end: the shortest profile against the whole one and against none, whose number is decided before
the first of them and whose intervals hold together.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno import numbers
from pgdyno.compare._elimination import Unit, expected_trials
from pgdyno.compare.profile_check import Checked, units_of
from pgdyno.compare.profile_file import NumberedSetting, conf_lines
from pgdyno.compare.taking_back import TakenBack, TakingBack, compared, lost
from pgdyno.conduct import Session
from pgdyno.dimension.session_state import kept_by_sessions
from pgdyno.errors import TrustError
from pgdyno.record import TrialKind
from pgdyno.remedy import Assessment, Circumstances, assess
from pgdyno.results.compare import Ablation, LineEffect, ProfileLine
from pgdyno.spec import Change
from pgdyno.stats import PAIRS_MIN, PairedEffect, PairPlan, paired_effect
from pgdyno.trial.pairs import Noise, TrialAnswer, run_trial
from pgdyno.trial.question import Question, question_of
from pgdyno.trial.result import ci95

PAIR_SHARE = 0.25
"""Share of the budget for the pair of the whole profile, with the identical slices before it."""
_FINAL_PAIRS_MIN = 8
_FINAL_PAIRS_MAX = 24
FINAL_CONFIDENCE = 0.975
"""Of each of the two last intervals, so that both hold together in 95 % of all ablations."""
GAIN_SHARE_LOST = 0.1
"""Share of the gain, on the log ratio, that the shortest profile may lose and still keep it."""
_LATER = ("autovacuum", "vacuum_", "checkpoint_", "deadlock_timeout")
"""Beginnings of settings whose effect takes longer than a slice."""
_GUARDS = ("lock_timeout", "statement_timeout", "transaction_timeout", "idle_")
_SUBJECTS = (
    ("commit", "synchronous_", "fsync", "wal_", "full_page"),
    ("checkpoint_", "max_wal", "min_wal", "bgwriter_", "backend_flush"),
    ("autovacuum", "vacuum_"),
    ("shared_", "work_mem", "maintenance_", "huge_", "temp_"),
    ("max_parallel", "max_worker", "parallel_", "effective_io", "io_"),
)


class AblationPlan(Struct, frozen=True):
    """An ablation, as far as it is known before the comparison."""

    checked: Checked
    budget_s: float
    pairs_max: int | None = None
    """Limit for each trial."""

    @property
    def trials(self) -> float:
        """About how many trials it takes."""
        return expected_trials(len(self.units))

    @property
    def units(self) -> list[Unit]:
        """The settings in the order in which they are taken back: first those that need a restart,
        because without them all later pairs are quicker; then by subject."""
        names = sorted(self.checked.profile.settings, key=self._order)
        return units_of(names)

    def _order(self, name: str) -> tuple[bool, int]:
        subject = next((n for n, starts in enumerate(_SUBJECTS) if name.startswith(starts)), 99)
        return name not in self.checked.restarts, subject

    def slice_seconds(self) -> float:
        """Return the length of slices with which the whole ablation fits into the budget, if any
        does."""
        pairs, between_s = self._pairs()
        return (_USED_SHARE * self.budget_s - between_s) / (2 * pairs) - _OVERHEAD_S

    def needed_s(self, seconds: float) -> float:
        """Return about how long it takes with slices of ``seconds``."""
        pairs, between_s = self._pairs()
        return 2 * pairs * (seconds + _OVERHEAD_S) + between_s

    def _pairs(self) -> tuple[float, float]:
        """Return about how many pairs it takes, and the seconds that restarts and new sessions of
        them take."""
        around, names = 2.5 * PAIRS_MIN + 2 * _FINAL_PAIRS_MIN, list(self.checked.profile.settings)
        of_lines = PAIRS_MIN * self.trials
        restarts = around + PAIRS_MIN if self.checked.restarts else 0.0
        renewing = [name for name in kept_by_sessions(names) if name not in self.checked.restarts]
        renewals = of_lines * len(renewing) / max(len(names), 1)
        if renewing and not restarts:
            renewals += around
        return around + of_lines, restarts * _RESTART_S + renewals * _RENEW_S


_RESTART_S = 5.0
"""Time of a restart of each side of a pair, with warming up."""
_RENEW_S = 2.5
"""Time of new sessions on each side of a pair, with warming up."""
_USED_SHARE = 0.85
"""Share of the budget that is planned: a trial may need more pairs than six."""
_OVERHEAD_S = 1.2
"""Time around a slice: the change, the checkpoint of some, and reading the probes."""


@dataclass
class Ablating:
    """An ablation under way, after the pair of the whole profile."""

    session: Session
    plan: AblationPlan
    whole: TrialAnswer
    noise: Noise
    seconds: float
    deadline_s: float
    rng: random.Random
    server: Circumstances
    _search: TakingBack = field(init=False)

    def __post_init__(self) -> None:
        self._search = TakingBack(
            session=self.session,
            settings=self.plan.checked.profile.settings,
            units=self.plan.units,
            server=self.server,
            noise=self.noise,
            seconds=self.seconds,
            rng=self.rng,
            pairs_max=self.plan.pairs_max,
        )

    def measure(self) -> Mapping[str, object]:
        """Take lines back until all are decided or the time is used up, then measure the shortest
        profile; return the members of the result."""
        final_s = 2 * _FINAL_PAIRS_MIN * self._whole_pair_s
        left = self._search.search(self.deadline_s - final_s)
        names = left.of(self.plan.checked.profile.settings)
        final = self._final(names) if names and left.gone else None
        undecided = left.undecided
        more_s = left.trials_expected * PAIRS_MIN * self._pair_s if undecided else 0.0
        return self._result(names, undecided, final, more_s)

    @property
    def _pair_s(self) -> float:
        return 2 * (self.seconds + _OVERHEAD_S)

    @property
    def _whole_pair_s(self) -> float:
        """Time of a pair in which all lines are applied and taken back: the longest one so far."""
        measured_s = self.whole.trial.pair_seconds if self.whole.trial else 0.0
        return max(self._pair_s, measured_s)

    def _final(self, names: Sequence[str]) -> tuple[PairedEffect, PairedEffect] | None:
        """Measure the shortest profile against the whole one, and against none, in as many pairs as
        there is time for; None if a slice is void too often."""
        shortest = Change(settings=self._search.of(names))
        questions = [
            self._final_question(self.plan.checked.change, shortest, "the shortest, not the whole"),
            self._final_question(Change(), shortest, "the shortest profile"),
        ]
        pair_s = sum(max(each.pair_seconds, self._whole_pair_s) for each in questions)
        left_s = self.deadline_s - time.monotonic()
        pairs = min(
            max(int(left_s / pair_s), _FINAL_PAIRS_MIN), self.plan.pairs_max or _FINAL_PAIRS_MAX
        )
        effects = []
        for question in questions:
            self.session.watcher.phase(question.title)
            try:
                answer = run_trial(
                    self.session,
                    question,
                    noise=self.noise,
                    deadline_s=math.inf,
                    rng=self.rng,
                    plan=PairPlan(pairs, pairs),
                )
            except TrustError:
                return None
            effects.append(_effect(answer, FINAL_CONFIDENCE))
        return effects[0], effects[1]

    def _final_question(self, a: Change, b: Change, title: str) -> Question:
        """Return a question about whole profiles, measured as the pair of the whole one was."""
        assessed = assess(self.plan.checked.change, self.server)
        made = question_of(assessed, kind=TrialKind.SHORTEST, title=title, seconds=self.seconds)
        labels = {"remedy": None, "durability_class": assess(b, self.server).durability_class}
        return Question(
            kind=made.kind,
            title=title,
            a=a,
            b=b,
            seconds=self.seconds,
            assessment=assessed,
            labels=labels,
        )

    def _result(
        self,
        names: Sequence[str],
        undecided: Sequence[str],
        final: tuple[PairedEffect, PairedEffect] | None,
        more_s: float,
    ) -> Mapping[str, object]:
        lines = [self._line(line, names, undecided) for line in self.plan.checked.profile.lines]
        lines += [_untried(line, _IN_FORCE) for line in self.plan.checked.in_force]
        lines.sort(key=lambda each: each.line)
        sentence = self._sentence(names, undecided, final, more_s)
        against_whole, gain = final or (None, None)
        ablation = Ablation(
            trials=len(self._search.taken),
            slice_seconds=round(self.seconds, 3),
            shortest_effect=_json(gain),
            against_whole=_json(against_whole),
            sentence=sentence,
            chance=self._chance(final=final is not None),
        )
        shortest = self._shortest_text(lines, sentence)
        return {"lines": tuple(lines), "shortest": shortest, "ablation": ablation}

    def _sentence(
        self,
        names: Sequence[str],
        undecided: Sequence[str],
        final: tuple[PairedEffect, PairedEffect] | None,
        more_s: float,
    ) -> str:
        """Return a sentence on the gain of the shortest profile, and the lines left undecided."""
        everything = len(names) == len(self.plan.checked.profile.lines)
        if not names:
            found = self._none_sentence()
        elif everything:
            found = "no line was left out" if undecided else "no line can be left out"
        else:
            found = self._final_sentence(final)
        if not undecided:
            return found
        minutes = max(1, math.ceil(more_s / 60))
        return (
            f"{found}; {len(undecided)} lines were not decided for lack of time, which needs about"
            f" {minutes} min more (--budget)"
        )

    def _none_sentence(self) -> str:
        """Return the sentence for no kept line: that none matters only if the whole does not."""
        if self.whole.verdict.outcome not in ("better", "mixed"):
            return "no line makes a difference that these pairs show"
        whole = compared(self.whole)
        return (
            "these pairs do not show which lines make the difference of the whole profile,"
            f" {numbers.effect(whole.ratio, whole.lo, whole.hi)}: more of them may (--budget)"
        )

    def _chance(self, *, final: bool) -> str:
        count = len(self._search.taken)
        if not count:
            return ""
        said = (
            f"{count} trials decided about lines, each at 95 % by itself: about one in twenty lines"
            " without effect may be kept by chance, and a small effect may be missed"
        )
        if not final:
            return said
        return (
            f"{said}. The intervals of the shortest profile are from pairs measured after these"
            " decisions, and hold together at 95 %"
        )

    def _final_sentence(self, final: tuple[PairedEffect, PairedEffect] | None) -> str:
        if final is None:
            return "the shortest profile could not be measured: too many slices were void"
        whole, gain = final
        higher = self.whole.measure == "throughput"
        figure = "throughput" if higher else "p99 at the held rate"
        measured = (
            f"{numbers.effect(gain.ratio, gain.lo, gain.hi)} of the {figure} without a profile, and"
            f" {numbers.effect(whole.ratio, whole.lo, whole.hi)} of that with the whole one, in"
            f" {whole.pairs} fresh pairs each"
        )
        loss = lost(whole, higher=higher)
        may_lose = self._margin()
        if loss[1] <= may_lose:
            return f"the shortest profile keeps the gain: {measured}"
        if loss[0] > 0:
            return f"the shortest profile does not keep all of the gain: {measured}"
        most = numbers.percent(-math.expm1(-loss[1]))
        return f"the shortest profile loses at most {most} of the whole one's: {measured}"

    def _margin(self) -> float:
        """Return the loss, as a log ratio, with which the gain counts as kept."""
        higher = self.whole.measure == "throughput"
        gain = math.log(compared(self.whole).ratio) * (1 if higher else -1)
        matters = math.log1p(self.whole.matters.of(self.whole.measure))
        return max(matters, GAIN_SHARE_LOST * gain)

    def _line(
        self, line: NumberedSetting, names: Sequence[str], undecided: Sequence[str]
    ) -> ProfileLine:
        assessed = self.plan.checked.assessments[line.setting]
        taken = next(
            (each for each in reversed(self._search.taken) if line.setting in each.names), None
        )
        decided = line.setting not in undecided
        answer = taken.answer if taken else None
        effect = compared(answer) if answer and decided else None
        reason, figures = _reason(line.setting, taken if decided else None, self.seconds)
        return ProfileLine(
            line=line.number,
            setting=line.setting,
            value=line.value,
            effect=None if effect is None else _json(effect),
            taken_back_with=tuple(n for n in taken.names if n != line.setting)
            if taken and decided
            else (),
            durability_class=assessed.durability_class,
            bound=assessed.bound,
            kept=line.setting in names,
            reason=reason,
            sentence=f"{reason}{figures}",
        )

    def _shortest_text(self, lines: Sequence[ProfileLine], sentence: str) -> str:
        """Return the shortest profile in the syntax of postgresql.conf."""
        kept = [each for each in lines if each.kept]
        run = self.session.reader().run
        version = str(run.server.get("version", "")).split(" (")[0]
        head = [
            f"# {len(kept)} of the {len(lines)} lines of {self.plan.checked.profile.name}:"
            f" {sentence}.",
            f"# Measured by pgdyno {run.pgdyno_version} on PostgreSQL {version}, with the load"
            f" {run.name}.",
        ]
        body = conf_lines((each.setting, each.value, _comment(each)) for each in kept)
        return "\n".join([*head, *body, ""])


def _effect(answer: TrialAnswer, confidence: float) -> PairedEffect:
    """Return the effect of a trial of a fixed number of pairs, at another level."""
    sides = (
        (answer.tps_a, answer.tps_b)
        if answer.measure == "throughput"
        else (answer.latency_p99_a, answer.latency_p99_b)
    )
    return paired_effect(*sides, confidence=confidence)


def _json(effect: PairedEffect | None) -> LineEffect | None:
    if effect is None:
        return None
    return LineEffect(ratio=numbers.rounded(effect.ratio), ci95=ci95(effect), pairs=effect.pairs)


def _reason(name: str, taken: TakenBack | None, seconds: float) -> tuple[str, str]:
    """Return why a line is kept or left out, and the figures or the explanation that follow."""
    if taken is None:
        return "not decided, for lack of time", ""
    if taken.answer is None:
        return "kept, because it could not be measured", f": {taken.why}"
    if taken.matters:
        return taken.why, ""
    if name.startswith(_GUARDS):
        return (
            "no effect on this load, which it is not for",
            ": it guards against sessions that wait",
        )
    if name.startswith(_LATER):
        return f"no effect seen in slices of {seconds:.2g} s; it acts over longer times", ""
    costs = taken.answer.verdict.outcome == "worse"
    return "costs" if costs else "no effect shown", f": {taken.why}"


_IN_FORCE = "the value that is in force without the profile"


def _untried(line: NumberedSetting, reason: str, assessed: Assessment | None = None) -> ProfileLine:
    """Return a line that was not taken back; ``assessed``: unless it was in force before."""
    return ProfileLine(
        line=line.number,
        setting=line.setting,
        value=line.value,
        effect=None,
        taken_back_with=(),
        durability_class=assessed.durability_class if assessed else "D0",
        bound=assessed.bound if assessed else "",
        kept=False,
        reason=reason,
        sentence=reason,
    )


def _comment(each: ProfileLine) -> str:
    parts = []
    if each.durability_class != "D0":
        parts.append(f"{each.durability_class}: {each.bound}")
    if each.effect is not None:
        parts.append(numbers.effect(each.effect.ratio, *each.effect.ci95))
    return "; ".join(parts)


def not_ablated(checked: Checked, why: str) -> Mapping[str, object]:
    """Return the members of the result for a profile whose pair shows no effect to divide."""
    lines = [
        _untried(line, "not taken back", checked.assessments[line.setting])
        for line in checked.profile.lines
    ]
    lines += [_untried(line, _IN_FORCE) for line in checked.in_force]
    ablation = Ablation(
        trials=0,
        slice_seconds=None,
        shortest_effect=None,
        against_whole=None,
        sentence=f"no line was taken back: {why}",
        chance="",
    )
    ordered = tuple(sorted(lines, key=lambda each: each.line))
    return {"lines": ordered, "shortest": None, "ablation": ablation}
