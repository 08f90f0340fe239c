"""The main job: load, diagnose, try the most promising remedy, keep or reject, and again.

Every remedy is proved by a trial against the state that it would change. What is kept changes what
limits the server next, so each kept step is followed by a fresh diagnosis on the trial's own
slices; and what one step gained, a later one may turn into a loss, so before the end each kept
remedy is taken back in turn and stays only if it still earns its place. Remedies above the
durability budget are measured against the final state and offered with their price, never kept.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace

from pgdyno.conduct import Session
from pgdyno.diagnose import Finding
from pgdyno.errors import SetupError, TrustError
from pgdyno.investigate._choose import Bounds, Candidate, candidates, guarded_settings, obstacle
from pgdyno.investigate.observe import record_diagnosis
from pgdyno.record import RunFile, throughput_tps
from pgdyno.remedy import circumstances
from pgdyno.results import store
from pgdyno.results.common import Measure, Verdict
from pgdyno.results.investigate import (
    Decision,
    InvestigateResult,
    NotMeasured,
    Step,
    TriedRemedy,
)
from pgdyno.spec import Change
from pgdyno.spec.durability import DurabilityClass, within
from pgdyno.stats import EFFECT_MATTERS, PAIRS_MIN, NoiseFloor, words
from pgdyno.trial.compare import WARM_UP_SECONDS, failures_by_side, measure_noise, noise_of
from pgdyno.trial.pairs import Answer, Noise, run_trial
from pgdyno.trial.question import SLICE_OVERHEAD_SECONDS, Question, question_of
from pgdyno.trial.result import effect_of, head, limit_of

# Shares of the time budget. With six pairs of slices a trial then takes about a seventh of it, so
# that a noise floor, four trials and a check fit; calibrated on budgets of 2 and 5 minutes.
_SLICE_SHARE = 1 / 110
_SLICE_SECONDS_RANGE = (0.8, 30.0)
_BASELINE_SHARE = 1 / 14
_BASELINE_SECONDS_RANGE = (5.0, 120.0)
_BASELINE_TRIES = 3
# A slice that is to show what works through checkpoints spans two of their cycles, but is no longer
# than this: where cycles are longer, the closing checkpoint charges what is postponed.
_CYCLE_SLICE_SECONDS_MAX = 60.0
# A trial that is not about throughput may still be kept when p99 falls this far and no throughput
# is lost: the remedies of stalls work on the tail.
_TAIL_GAIN_RATIO = 0.9


@dataclass
class Kept:
    """A remedy in force, with the trial that let it in."""

    candidate: Candidate
    answer: Answer


@dataclass
class Progress:
    """Where an investigation stands."""

    kept: list[Kept] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    finding_rows: dict[int, Finding] = field(default_factory=dict)
    """The present state's findings, by their rows in the run file."""
    state_slices: list[int] = field(default_factory=list)
    """Slices under the present state: the next diagnosis and the final figures rest on them."""

    @property
    def findings(self) -> list[Finding]:
        """The present state's findings, the limit first."""
        return list(self.finding_rows.values())

    @property
    def state(self) -> Change:
        """All kept changes together."""
        return _together(self.kept)

    def tried_key(self, candidate: Candidate) -> str:
        """A candidate may be worth another try once the state is another."""
        return f"{self.state.to_json()} + {candidate.key}"


def investigate(
    session: Session, *, budget_s: float, allow: DurabilityClass, may_apply: bool
) -> InvestigateResult:
    """Carry the investigation out within ``budget_s`` of load, and record the result."""
    return _Investigation(session, budget_s, Bounds(allow, may_apply)).run()


class _Investigation:
    def __init__(self, session: Session, budget_s: float, bounds: Bounds) -> None:
        self._session = session
        self._bounds = bounds
        self._began_s = time.monotonic()
        self._deadline_s = self._began_s + budget_s
        self._slice_s = _within_range(budget_s * _SLICE_SHARE, _SLICE_SECONDS_RANGE)
        self._baseline_s = _within_range(budget_s * _BASELINE_SHARE, _BASELINE_SECONDS_RANGE)
        self._rng = random.Random(session.spec.load.seed)
        self._server = circumstances(session.spec, session.target.facts["settings"])
        self._progress = Progress()
        self._unmeasured: list[tuple[Candidate, str]] = []
        self._out_of_time = False
        self._guarded: dict[str, str] = {}
        """Settings that are held fast, with the reason."""
        self._no_verdict: str | None = None
        """Why a trial came to none, and nothing was tried after it."""
        still = NoiseFloor(1.0, 1.0, 0.0)
        self._noise = Noise(still, still, "throughput")

    def run(self) -> InvestigateResult:
        baseline = self._measure_baseline()
        try:
            self._noise = measure_noise(
                self._session, self._slice_s, self._rng, deadline_s=self._deadline_s
            )
            self._try_remedies()
            self._take_back_in_turn()
            self._offer()
        except TrustError as problem:
            self._no_verdict = problem.message
        self._session.stop_load()
        result = self._result(baseline)
        store(self._session.recorder, result)
        return result

    def _measure_baseline(self) -> list[int]:
        session = self._session
        ramp_s = session.spec.load.ramp_ms / 1000
        session.start_load(scheduled=ramp_s > 0)
        if ramp_s:
            session.watcher.phase(f"ramping up over {ramp_s:g} s")
            with session.measured("ramp"):
                session.wait(ramp_s)
        else:
            session.watcher.phase("warming up")
            session.wait(WARM_UP_SECONDS)
        session.watcher.phase("measuring the baseline")
        slices = [self._sound_slice()]
        self._progress.state_slices = list(slices)
        self._progress.finding_rows = self._diagnose(slices, step=0)
        return slices

    def _sound_slice(self) -> int:
        """A slice of the baseline that is not void."""
        voids = []
        for _ in range(_BASELINE_TRIES):
            slice_id = self._session.slice(self._baseline_s, kind="baseline")
            why = self._session.reader().slice(slice_id).void
            if why is None:
                return slice_id
            voids.append(why)
            self._session.wait_served()
        raise TrustError(
            f"the baseline could not be measured: {'; '.join(dict.fromkeys(voids))}",
            code="void-slices",
        )

    def _try_remedies(self) -> None:
        """Keep what helps within the durability budget, until nothing left is predicted to."""
        while (candidate := self._next_candidate()) is not None:
            if not self._time_for(self._question(candidate), spare_trials=self._rechecks_due()):
                self._out_of_time = True
                self._leave_out(candidate, "the time budget ended")
                return
            self._try(candidate)

    def _next_candidate(self) -> Candidate | None:
        """The best that is left within the durability budget and can be measured."""
        below_floor = []
        for candidate in self._untried():
            if not within(candidate.durability_class, self._bounds.allow):
                continue
            why_not = self._obstacle(candidate)
            if why_not is not None:
                self._leave_out(candidate, why_not)
            elif self._worth_measuring(candidate):
                return candidate
            else:
                below_floor.append(candidate)
        if below_floor and self._lower_the_floor(below_floor[0]):
            return below_floor[0]
        for candidate in below_floor:
            self._leave_out(candidate, "not measured: its predicted gain is below the noise floor")
        return None

    def _lower_the_floor(self, candidate: Candidate) -> bool:
        """With time to spare, measure the noise more closely; whether that makes the candidate
        worth measuring."""
        pairs = 2 * PAIRS_MIN
        noise_s = pairs * self._plain_pair_s
        if not self._time_for(
            self._question(candidate), spare_trials=self._rechecks_due() + 1, besides_s=noise_s
        ):
            return False
        self._noise = measure_noise(
            self._session,
            self._slice_s,
            self._rng,
            deadline_s=self._deadline_s,
            change=self._progress.state,
            pairs_max=pairs,
        )
        return self._worth_measuring(candidate)

    def _worth_measuring(self, candidate: Candidate) -> bool:
        gain = candidate.predicted_ratio - 1
        return candidate.remedy.guards or gain >= self._noise.throughput.half_width

    def _obstacle(self, candidate: Candidate) -> str | None:
        """Why the candidate cannot be measured; ``None`` when it can."""
        if not candidate.remedy.guards:
            for name in candidate.change.settings:
                if name in self._guarded:
                    return self._guarded[name]
        return obstacle(candidate, self._session, self._bounds)

    def _untried(self) -> list[Candidate]:
        progress = self._progress
        found = candidates(progress.findings, progress.state, self._session.spec, self._server)
        # For good: a setting that keeps the server from failing is not to be had back later.
        self._guarded |= guarded_settings(found)
        return [each for each in found if progress.tried_key(each) not in progress.tried]

    def _try(self, candidate: Candidate) -> None:
        progress, session = self._progress, self._session
        progress.tried.add(progress.tried_key(candidate))
        session.watcher.phase(f"trying {candidate.title}")
        answer = self._answer_of(candidate, self._question(candidate))
        if answer is None:
            return
        decision = _decision(candidate, answer)
        self._note_step(candidate, answer, decision)
        if decision != "kept":
            progress.state_slices.extend(answer.slices_a)
            return
        progress.kept = [*_without(progress.kept, candidate), Kept(candidate, answer)]
        session.recorder.add_event("step", f"kept: {candidate.title}")
        self._diagnose_afresh(answer.slices_b)

    def _answer_of(self, candidate: Candidate, question: Question) -> Answer | None:
        """The trial's answer; None, and the candidate left out with the reason, when the server
        refuses the change: a missing right, or a value that only its start could judge."""
        try:
            return self._run(question)
        except SetupError as problem:
            self._leave_out(candidate, f"not measured: {problem.message}")
            return None

    def _diagnose_afresh(self, slices: tuple[int, ...]) -> None:
        progress = self._progress
        progress.state_slices = list(slices)
        progress.finding_rows = self._diagnose(progress.state_slices, step=len(progress.steps))

    def _diagnose(self, slices: list[int], *, step: int) -> dict[int, Finding]:
        return record_diagnosis(self._session, slices, step=step, allow=self._bounds.allow)

    def _take_back_in_turn(self) -> None:
        """Each kept remedy must still earn its place beside those that came after it.

        The last one's own trial was against the very state without it, and stands.
        """
        progress = self._progress
        for kept in progress.kept[:-1]:
            others = [other for other in progress.kept if other is not kept]
            if len(others) == len(progress.kept):
                continue  # what was tried after another's end has taken its place
            if kept.candidate.remedy.guards:
                continue  # it is not there to earn
            rest = _together(others)
            title = f"without {kept.candidate.title}"
            question = replace(
                self._question(kept.candidate),
                kind="recheck",
                title=title,
                a=rest,
                b=progress.state,
                predicted_ratio=kept.answer.throughput.ratio,
            )
            if not self._time_for(question):
                self._out_of_time = True
                continue
            self._session.watcher.phase(f"taking back {kept.candidate.title}")
            answer = self._run(question)
            if improves(answer) or answer.verdict.outcome == "inconclusive":
                self._note_step(kept.candidate, answer, "still earns")
                progress.state_slices = list(answer.slices_b)
                continue
            progress.kept = others
            self._note_step(kept.candidate, answer, "taken back")
            self._session.recorder.add_event("step", f"taken back: {kept.candidate.title}")
            self._diagnose_afresh(answer.slices_a)
            progress.tried.add(progress.tried_key(kept.candidate))
            self._try_remedies()

    def _offer(self) -> None:
        """Measure what lies above the durability budget on the final state, and keep none of it."""
        for candidate in self._untried():
            if within(candidate.durability_class, self._bounds.allow):
                continue
            why_not = self._obstacle(candidate)
            question = self._question(candidate)
            if why_not is None and not self._time_for(question):
                self._out_of_time = True
                why_not = "not measured: the time budget ended"
            if why_not is not None:
                self._leave_out(candidate, why_not)
                continue
            self._session.watcher.phase(f"pricing {candidate.title}")
            answer = self._answer_of(candidate, question)
            if answer is None:
                continue
            self._progress.state_slices.extend(answer.slices_a)
            self._note_step(candidate, answer, "offered" if improves(answer) else "rejected")

    def _question(self, candidate: Candidate) -> Question:
        progress = self._progress
        return remedy_question(
            candidate, progress.state, slice_s=self._slice_s, step=len(progress.steps) + 1
        )

    def _run(self, question: Question) -> Answer:
        """A trial; what it takes beyond six pairs must leave the others their time."""
        untried = [c for c in self._untried() if self._worth_measuring(c)]
        measurable = [c for c in untried if not self._obstacle(c)]
        open_trials = self._rechecks_due() + len(measurable)
        left_s = self._deadline_s - time.monotonic()
        share_s = max(left_s / (1 + open_trials), question.pair_seconds * PAIRS_MIN)
        return run_trial(
            self._session,
            question,
            noise=self._noise,
            deadline_s=time.monotonic() + share_s,
            rng=self._rng,
        )

    def _time_for(
        self, question: Question, *, spare_trials: int = 0, besides_s: float = 0.0
    ) -> bool:
        trials_s = PAIRS_MIN * (question.pair_seconds + spare_trials * self._plain_pair_s)
        needed_s = trials_s + besides_s
        return time.monotonic() + needed_s <= self._deadline_s

    @property
    def _plain_pair_s(self) -> float:
        """What a pair of slices of the usual length takes, about."""
        return 2 * (self._slice_s + SLICE_OVERHEAD_SECONDS)

    def _rechecks_due(self) -> int:
        """Trials to leave time for: all that is kept, but for the last, is taken back once."""
        return sum(not each.candidate.remedy.guards for each in self._progress.kept[:-1])

    def _note_step(self, candidate: Candidate, answer: Answer, decision: Decision) -> None:
        recorder = self._session.recorder
        recorder.update_trial(answer.trial_id, decision=decision)
        if improves(answer) and not candidate.remedy.guards:
            for row, finding in self._progress.finding_rows.items():
                if finding.id == candidate.finding:
                    recorder.update_finding(row, status="proved")
        remedy = TriedRemedy(
            id=candidate.remedy.id,
            title=candidate.title,
            change=candidate.change.to_json(),
            durability_class=candidate.durability_class,
        )
        self._progress.steps.append(
            Step(
                finding=candidate.finding,
                remedy=remedy,
                predicted_ratio=round(candidate.predicted_ratio, 3),
                set_by=dict(answer.set_by),
                effect=effect_of(answer.throughput),
                latency_p99_ratio=words.kept(answer.latency_p99.ratio),
                compared=answer.measure,
                failures=failures_by_side(answer),
                verdict=answer.verdict.outcome,
                decision=decision,
            )
        )
        effect = answer.throughput if answer.measure == "throughput" else answer.latency_p99
        self._session.watcher.note(
            f"{candidate.title}: {answer.gain} [{effect.lo:.2f}, {effect.hi:.2f}] {decision}"
        )

    def _leave_out(self, candidate: Candidate, why: str) -> None:
        """Record that a remedy was not measured, and why."""
        progress = self._progress
        progress.tried.add(progress.tried_key(candidate))
        self._unmeasured.append((candidate, why))
        self._session.recorder.add_trial(
            kind="remedy",
            title=candidate.title,
            change=candidate.change.to_json(),
            step=len(progress.steps) + 1,
            finding=candidate.finding,
            remedy=candidate.remedy.id,
            durability_class=candidate.durability_class,
            predicted_ratio=candidate.predicted_ratio,
            decision="not measured",
            sentence=why,
        )

    def _result(self, baseline: list[int]) -> InvestigateResult:
        run = self._session.reader()
        progress = self._progress
        final = progress.state_slices
        return InvestigateResult(
            **dict(head(run, progress.findings, no_verdict=self._no_verdict)),
            steps=tuple(progress.steps),
            not_measured=tuple(
                NotMeasured(remedy=candidate.remedy.id, title=candidate.title, why=why)
                for candidate, why in self._unmeasured
            ),
            allow=self._bounds.allow,
            kept=progress.state.to_json(),
            baseline_tps=round(throughput_tps(run, baseline), 2),
            final_tps=round(throughput_tps(run, final), 2),
            baseline_latency_ms_p99=_p99_ms(run, baseline),
            final_latency_ms_p99=_p99_ms(run, final),
            noise_floor=noise_of(self._noise, self._compared),
            next_limit=limit_of(progress.findings),
            out_of_time=self._out_of_time,
            elapsed_s=round(time.monotonic() - self._began_s, 1),
            verdict=self._verdict(),
        )

    @property
    def _compared(self) -> Measure:
        """What the last trial was decided by; before any, what identical slices differ in."""
        steps = self._progress.steps
        return steps[-1].compared if steps else self._noise.measure

    def _verdict(self) -> Verdict:
        """The investigation in one sentence."""
        kept = self._progress.kept
        limit = limit_of(self._progress.findings)
        if not kept:
            return limit
        gains = "; ".join(_won(each) for each in kept)
        first = kept[0].candidate.finding
        return Verdict(finding=first, sentence=f"{gains}; next limit: {limit.sentence}")


def remedy_question(candidate: Candidate, state: Change, *, slice_s: float, step: int) -> Question:
    """Whether ``candidate`` helps on top of ``state``."""
    bound = candidate.assessment.checkpoint_bound
    cycles_s = min(2 * (candidate.cycle_s or 0.0), _CYCLE_SLICE_SECONDS_MAX) if bound else 0.0
    return question_of(
        candidate.assessment,
        kind="remedy",
        title=candidate.title,
        state=state,
        seconds=max(slice_s, cycles_s),
        predicted_ratio=None if candidate.remedy.guards else candidate.predicted_ratio,
        pairs_max=2 * PAIRS_MIN,
        labels={"step": step, "finding": candidate.finding, "remedy": candidate.remedy.id},
    )


def improves(answer: Answer) -> bool:
    """Whether a trial's change is worth keeping: more throughput, or a much shorter tail at no
    loss of throughput; at a fixed rate, which both sides hold, a shorter tail is all there is."""
    if answer.verdict.outcome == "better":
        return answer.measure == "throughput" or answer.throughput.lo >= 1 - EFFECT_MATTERS
    loses = answer.verdict.outcome == "worse" or answer.throughput.lo < 1 - EFFECT_MATTERS
    return not loses and answer.latency_p99.hi < _TAIL_GAIN_RATIO


def _decision(candidate: Candidate, answer: Answer) -> Decision:
    """What becomes of a candidate within the durability budget. One that guards the server is kept
    unless it was seen to cost something; that price is the user's to pay."""
    if candidate.remedy.guards:
        return "offered" if answer.verdict.outcome == "worse" else "kept"
    return "kept" if improves(answer) else "rejected"


def _won(kept: Kept) -> str:
    """What a kept remedy is good for."""
    candidate = kept.candidate
    if candidate.remedy.guards:
        return f"{candidate.title}: {candidate.remedy.summary}"
    return f"{candidate.title} gives {kept.answer.gain}"


def _together(kept: list[Kept]) -> Change:
    state = Change()
    for each in kept:
        state = each.candidate.change.over(state)
    return state


def _without(kept: list[Kept], candidate: Candidate) -> list[Kept]:
    """A remedy that is tried again with another value takes its former place."""
    return [each for each in kept if each.candidate.remedy.id != candidate.remedy.id]


def _within_range(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])


def _p99_ms(run: RunFile, slices: list[int]) -> float:
    return round(run.histogram("response", slices).percentile(99) / 1e6, 3)
