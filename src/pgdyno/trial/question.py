"""The question of a trial: two changes, and the catalogue's assessment of their difference.

``investigate``, ``compare``, ``price`` and ``story`` all use ``question_of``, so that all commands
measure a change in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.remedy import Assessment
from pgdyno.spec import Change

PAIRS_MAX = 60
SLICE_OVERHEAD_SECONDS = 0.6
"""Time of a slice in addition to its length: the change, a short wait, reading the probes twice."""


@dataclass(frozen=True)
class Question:
    """The question of a trial: does ``b`` differ from ``a``?"""

    kind: str
    """noise, compare, price, remedy or recheck."""
    title: str
    a: Change
    b: Change
    seconds: float
    """Length of one slice."""
    predicted_ratio: float | None = None
    """The ratio predicted before the trial; it sets the precision that is required."""
    pairs_max: int = PAIRS_MAX
    assessment: Assessment | None = None
    """The catalogue's assessment of the difference; ``None`` if the sides are identical."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the trial's row: step, finding, remedy, …"""

    @property
    def checkpoint_bound(self) -> bool:
        """True if slices begin right after a checkpoint and include the next one."""
        return self.assessment is not None and self.assessment.checkpoint_bound

    @property
    def pair_seconds(self) -> float:
        """Approximate time of a pair."""
        checkpoints = 1.0 if self.checkpoint_bound else 0.0
        return 2 * (self.seconds + SLICE_OVERHEAD_SECONDS + checkpoints)


def question_of(
    assessment: Assessment,
    *,
    kind: str,
    title: str,
    seconds: float,
    state: Change | None = None,
    predicted_ratio: float | None = None,
    pairs_max: int = PAIRS_MAX,
    labels: Mapping[str, Any] | None = None,
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
