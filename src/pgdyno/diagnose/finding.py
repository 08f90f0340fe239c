"""The types of a diagnosis: findings with evidence, causes and proposals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pgdyno.spec.change import Change
from pgdyno.stats.words import rounded

Status = Literal["found", "cleared", "skipped"]
Window = tuple[int, int]


class Skip(Exception):
    """The run does not hold what the check needs; the text says what is missing and why."""


@dataclass(frozen=True)
class Evidence:
    """A named number that supports a finding."""

    name: str
    value: float | str | None
    unit: str
    """"share" (0 to 1), "ms", "tps", "count", "bytes", "bytes/s", "cores", … or ""."""
    threshold: str | None = None
    """Threshold for the value, as text: "at least 30 %"."""
    window_ms: Window | None = None
    """Start and end, in milliseconds since the run's start."""

    def to_row(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "threshold": self.threshold,
            "window_ms": None if self.window_ms is None else list(self.window_ms),
        }


@dataclass(frozen=True)
class Proposal:
    """A change that a finding suggests, with the throughput ratio that a model predicts for it."""

    remedy_id: str
    change: Change
    predicted_ratio: float
    why: str
    cycle_s: float | None = None
    """Seconds between checkpoints, for a change that works through them: a slice spans two."""

    def to_row(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "remedy_id": self.remedy_id,
            "change": self.change.to_json(),
            "predicted_ratio": rounded(self.predicted_ratio),
            "why": self.why,
        }


@dataclass(frozen=True)
class Finding:
    """A signature's answer on a period of a run."""

    id: str
    status: Status
    sentence: str
    """The verdict, readable on its own, without a final period."""
    confidence: float = 0.0
    """0 to 1: how sure the signature is that this is not one of its false positives."""
    evidence: tuple[Evidence, ...] = ()
    false_positives: str = ""
    """Circumstances that would make the finding wrong."""
    causes: tuple[str, ...] = ()
    """Ids of the findings of which this one is a symptom."""
    proposals: tuple[Proposal, ...] = ()
    """The best predicted first."""
    share: float = 0.0
    """Part of the mean response time that belongs to this finding alone, 0 to 1."""
    weight: float = 0.0
    """``share`` times the part of it that would credibly go; what findings are ranked by."""
    rank: int | None = None
    """1 is the limit; None unless found."""
    step: int = 0

    def to_row(self) -> dict[str, Any]:
        """Columns of the run file's table ``finding``."""
        return {
            "step": self.step,
            "finding": self.id,
            "status": self.status,
            "rank": self.rank,
            "sentence": self.sentence,
            "confidence": self.confidence if self.status == "found" else None,
            "evidence": [item.to_row() for item in self.evidence],
            "false_positives": self.false_positives,
            "causes": list(self.causes),
            "remedies": [proposal.to_row() for proposal in self.proposals],
        }
