"""The question of a trial: two changes, and what the catalogue knows of the difference.

``investigate``, ``compare``, ``price`` and ``story`` all come to their questions by
``question_of``, so that a change is measured in the same way whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pgdyno.remedy import Assessment
from pgdyno.spec import Change

PAIRS_MAX = 60
# What a slice costs beside its seconds: the change, settling, reading the probes at both edges.
SLICE_OVERHEAD_SECONDS = 0.6


@dataclass(frozen=True)
class Question:
    """What a trial is to answer: does ``b`` differ from ``a``?"""

    kind: str
    """noise, compare, price, remedy or recheck."""
    title: str
    a: Change
    b: Change
    seconds: float
    """Length of one slice."""
    predicted_ratio: float | None = None
    """What was predicted beforehand; it sets how closely the effect need be known."""
    pairs_max: int = PAIRS_MAX
    assessment: Assessment | None = None
    """What the catalogue knows of the difference; ``None``: there is none."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Further columns of the trial's row: step, finding, remedy, …"""

    @property
    def checkpoint_bound(self) -> bool:
        """Whether slices begin right after a checkpoint and pay for the one that they leave due."""
        return self.assessment is not None and self.assessment.checkpoint_bound

    @property
    def pair_seconds(self) -> float:
        """What a pair takes, about."""
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
    """Does the change that was assessed make a difference on top of ``state``?

    ``labels`` go before what the assessment says of remedy and class.
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
