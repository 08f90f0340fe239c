"""The question of a trial: two changes, and the catalogue's assessment of their difference.

``investigate``, ``compare``, ``price`` and ``story`` all use ``question_of``, so that all commands
measure a change in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from pgdyno.conduct import warm_up_seconds_max
from pgdyno.dimension.session_state import kept_by_sessions
from pgdyno.record import TrialKind
from pgdyno.remedy import Assessment, Need
from pgdyno.spec import Change
from pgdyno.spec.change import Debt
from pgdyno.spec.units import format_duration

PAIRS_MAX = 60
SLICE_OVERHEAD_SECONDS = 0.6
"""Time of a slice in addition to its length: the change, a short wait, reading the probes twice."""
LEAST_SHARE = 0.55
"""Part of the time that slices are estimated to take beyond their length which passes on an idle
machine: calibrated on 2 cores, where a comparison over restarts takes 75 s."""
RENEW_SECONDS = 0.5
"""Approximate extra time of a pair whose slices have new sessions, without warming up: the load
ends, and connects again, for each of its slices."""
REARRANGE_SECONDS: Mapping[Need, float] = {
    "restart": 3.0,
    "index": 0.5,
    "rewrite": 6.0,
    "layout": 6.0,
    "machine": 3.0,
    "sql": 3.0,
}
"""Approximate extra time of a pair whose sides differ in more than a reload, on two cores, without
warming up: stopping the server and starting it again, creating indexes of tables of some MB,
rewriting tables, moving files, a standby that catches up, the load begun anew or the server
restarted for a parameter of the kernel. What SQL of the user's takes is measured
(``change_seconds``)."""


class Question(Struct, frozen=True):
    """The question of a trial: does ``b`` differ from ``a``?"""

    kind: TrialKind
    """noise, compare, levelled, line, shortest, price, remedy or recheck."""
    title: str
    a: Change
    b: Change
    seconds: float
    """Length of one slice."""
    predicted_ratio: float | None = None
    """The ratio predicted before the trial; it sets the precision of the first look."""
    pairs_max: int = PAIRS_MAX
    like: Change | None = None
    """For identical slices: the change of the trials to come. Each slice is entered by way of it,
    and has a checkpoint if ``like_checkpoint_bound``."""
    like_checkpoint_bound: bool = False
    change_seconds: float = 0.0
    """Time that it takes to make the change and to undo it, where that was measured."""
    assessment: Assessment | None = None
    """The catalogue's assessment of the difference; ``None`` if the sides are identical."""
    labels: Mapping[str, object] = field(default_factory=dict)
    """Further columns of the trial's row: step, finding, remedy, …"""

    @property
    def checkpoint_bound(self) -> bool:
        """True if slices begin right after a checkpoint and include the next one."""
        if self.assessment is None:
            return self.like_checkpoint_bound
        return self.assessment.checkpoint_bound

    @property
    def debts(self) -> tuple[Debt, ...]:
        """The work that slices postpone, and do at their end."""
        if self.assessment is None:
            return ("checkpoint",) if self.like_checkpoint_bound else ()
        return self.assessment.postpones

    @property
    def renews_sessions(self) -> bool:
        """True if sessions may keep something of a setting in which the sides differ."""
        return bool(kept_by_sessions(self.b.settings_differing_from(self.a)))

    @property
    def pair_seconds_least(self) -> float:
        """Approximate time of a pair on an idle machine."""
        measured_s = 2 * self.seconds
        known_s = measured_s + self.change_seconds
        return known_s + LEAST_SHARE * (self.pair_seconds - known_s)

    @property
    def pair_seconds(self) -> float:
        """Approximate time of a pair."""
        checkpoints = 1.0 if self.checkpoint_bound else 0.0
        warm_up_s = warm_up_seconds_max(self.seconds) if self.rearranged_seconds else 0.0
        slice_s = self.seconds + SLICE_OVERHEAD_SECONDS + checkpoints + warm_up_s
        return 2 * slice_s + self.rearranged_seconds + self.change_seconds

    @property
    def rearranged_seconds(self) -> float:
        """Approximate extra time of a pair whose sides differ in more than a reload; 0 if they do
        not."""
        needs = self.assessment.needs if self.assessment else ()
        rearranged_s = max((REARRANGE_SECONDS.get(need, 0.0) for need in needs), default=0.0)
        return max(rearranged_s, RENEW_SECONDS) if self.renews_sessions else rearranged_s


def not_measurable(slice_s: float, minutes: int) -> str:
    """Return that a change needs slices for which the budget is too short, and how much it
    needs."""
    return (
        f"not measurable in this budget: with slices of {format_duration(round(1000 * slice_s))} it"
        f" needs about {minutes} min"
    )


def question_of(
    assessment: Assessment,
    *,
    kind: TrialKind,
    title: str,
    seconds: float,
    state: Change | None = None,
    predicted_ratio: float | None = None,
    pairs_max: int = PAIRS_MAX,
    labels: Mapping[str, object] | None = None,
) -> Question:
    """Return the question of the effect of the assessed change on top of ``state``.

    ``labels`` override the remedy and the class of the assessment.
    """
    remedy = assessment.remedy
    known = {
        "remedy": remedy.id if remedy else None,
        "durability_class": assessment.durability_class,
    }
    base = state or Change()
    return Question(
        kind=kind,
        title=title,
        a=base,
        b=assessment.change.over(base),
        seconds=seconds,
        predicted_ratio=predicted_ratio,
        pairs_max=pairs_max,
        assessment=assessment,
        labels={**known, **(labels or {})},
    )
