"""The comparison of a profile: the check, the pair of the whole, and which lines did it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from pgdyno.compare._ablating import PAIR_SHARE, Ablating, AblationPlan, not_ablated
from pgdyno.compare._elimination import expected_trials
from pgdyno.compare.change import compare
from pgdyno.compare.profile_check import Checked, ProfileCheck, units_of
from pgdyno.compare.profile_file import Profile
from pgdyno.conduct import Session
from pgdyno.errors import SetupError, UsageError
from pgdyno.remedy import assess, circumstances
from pgdyno.results.compare import ComparedProfile, CompareResult
from pgdyno.spec.units import format_duration
from pgdyno.stats import PAIRS_MIN
from pgdyno.trial.pairs import Noise, TrialAnswer

_SLICE_SECONDS_MIN = 0.8
_SLICE_SECONDS_MAX = 20.0
_DEFAULT_SLICE_SECONDS = 2.0
_BUDGET_S_MIN, _BUDGET_S_MAX = 180.0, 900.0
LEAST_BUDGET_S = 90.0
"""Time in which the whole profile and a group of lines can be measured at all."""
_VALUE_MIN = 4
"""Length of a value that is not in a message by chance."""
_LINES_SHOWN_MAX = 5
_DIVIDED = ("better", "worse", "mixed")
"""Outcomes of the whole profile of which lines can be the cause."""


def default_budget_s(profile: Profile) -> float:
    """Return the default time of an ablation, by the number of lines: 3 to 15 minutes."""
    trials = expected_trials(len(units_of(profile.settings)))
    pairs = 5 * PAIRS_MIN + PAIRS_MIN * trials
    return min(max(2 * pairs * _DEFAULT_SLICE_SECONDS, _BUDGET_S_MIN), _BUDGET_S_MAX)


def check_ablation_budget(budget_ms: int) -> None:
    """Raise UsageError for a time in which nothing can be taken back."""
    if budget_ms < 1000 * LEAST_BUDGET_S:
        raise UsageError(
            f"--budget {format_duration(budget_ms)}: with --ablate, the pairs of the whole profile"
            f" and of its lines need at least {LEAST_BUDGET_S:.0f} s",
            code="contradiction",
            hint="--budget 5min, or leave it out",
        )


def compare_profile(
    session: Session,
    check: ProfileCheck,
    *,
    budget_s: float,
    slice_s: float | None,
    pairs_max: int | None,
    ablate: bool,
) -> CompareResult:
    """Compare the session's spec with itself under the profile; with ``ablate``, find the lines
    that make the difference. Records and returns the result."""
    checked = check.checked
    for note in checked.notes():
        session.watcher.note(note)
    count = len(checked.profile.lines)
    title = f"the profile {checked.profile.name} ({count} setting{'s' if count != 1 else ''})"
    seconds, further = slice_s, _OfProfile(checked)
    if ablate:
        plan = AblationPlan(checked, budget_s, pairs_max)
        seconds = slice_s or _seconds(session, plan)
        further = _OfProfile(checked, plan, time.monotonic() + budget_s)
    with _naming_lines(checked):
        return compare(
            session,
            checked.change,
            title=title,
            budget_s=PAIR_SHARE * budget_s if ablate and seconds else budget_s,
            slice_s=seconds,
            pairs_max=pairs_max,
            further=further,
        )


@contextmanager
def _naming_lines(checked: Checked) -> Iterator[None]:
    """Within the block, an error of a server that does not start names the lines that it is about:
    those whose name or value it has, or else those that are read at the start."""
    try:
        yield
    except SetupError as problem:
        lines = [each for each in checked.profile.lines if each.setting in checked.restarts]
        said = f"{problem.message} {problem.hint or ''}"
        named = [
            each
            for each in checked.profile.lines
            if each.setting in said or (len(each.value) >= _VALUE_MIN and each.value in said)
        ]
        if problem.code == "start-failed" and (found := named or lines):
            listed = "; ".join(f"line {each.number}: {each}" for each in found[:_LINES_SHOWN_MAX])
            problem.message = f"{problem.message}: {checked.profile.name}, {listed}"
        raise


def _seconds(session: Session, plan: AblationPlan) -> float | None:
    """Return the length of slices for an ablation; None if the effect of a line comes so late that
    the comparison itself says how long it takes."""
    server = circumstances(session.spec, session.target.facts["settings"])
    effect_after_s = assess(plan.checked.change, server).effect_after_s
    fitting = min(max(plan.slice_seconds(), _SLICE_SECONDS_MIN), _SLICE_SECONDS_MAX)
    seconds = max(fitting, effect_after_s)
    needed_s = plan.needed_s(seconds)
    if needed_s > 1.2 * plan.budget_s:
        session.watcher.note(
            f"to take back {len(plan.checked.profile.lines)} lines with slices of {seconds:.2g} s"
            f" needs about {math.ceil(needed_s / 60)} min; what is left after"
            f" {format_duration(round(1000 * plan.budget_s))} is named"
        )
    pair_s = 4 * PAIRS_MIN * seconds
    return None if seconds > fitting and pair_s > plan.budget_s else seconds


class _OfProfile(Struct, frozen=True):
    """The members of a comparison's result that only a profile has."""

    checked: Checked
    plan: AblationPlan | None = None
    deadline_s: float = 0.0

    def members(self) -> Mapping[str, object]:
        """Return the members that are known before anything is measured."""
        checked = self.checked
        return {
            "profile": ComparedProfile(
                name=checked.profile.name,
                left_out=tuple(map(str, checked.left_out)),
                remarks=tuple(map(str, checked.remarks)),
            )
        }

    def after(
        self,
        session: Session,
        answer: TrialAnswer,
        noise: Noise,
        seconds: float,
        rng: random.Random,
    ) -> Mapping[str, object]:
        """Measure the lines under the same load after the trial; return members of the result."""
        if self.plan is None:
            return {}
        if answer.verdict.outcome not in _DIVIDED:
            return not_ablated(self.checked, f"the whole profile: {answer.verdict.sentence}")
        return Ablating(
            session=session,
            plan=self.plan,
            whole=answer,
            noise=noise,
            seconds=seconds,
            deadline_s=self.deadline_s,
            rng=rng,
            server=circumstances(session.spec, session.target.facts["settings"]),
        ).measure()
