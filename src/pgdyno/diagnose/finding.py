"""The types of a diagnosis: findings with evidence, causes and proposals."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.spec.change import Change
from pgdyno.stats.prediction import Prediction, prediction_of, rounded_interval
from pgdyno.stats.words import rounded

Status = Literal["found", "cleared", "skipped"]
Severity = Literal["will fail", "limit", "costs", "minor"]
"""Weight of a finding for who runs the server, the worst first:

- will fail: the server will stop, or refuse work (disk, transaction IDs, connections, a sequence);
- limit: a limit of the load at present, by its share of the time;
- costs: time, space or safety is lost that need not be, but it is no limit at present;
- minor: worth knowing.
"""
Window = tuple[int, int]


class Skip(Exception):
    """The run does not hold what the check needs; the text says what is missing and why."""


class Evidence(Struct, frozen=True):
    """A named number that supports a finding."""

    name: str
    value: float | str | None
    unit: str
    """"share" (0 to 1), "ms", "tps", "count", "bytes", "bytes/s", "cores", … or ""."""
    threshold: str | None = None
    """Threshold for the value, as text: "at least 30 %"."""
    window_ms: Window | None = None
    """Start and end, in milliseconds since the run's start."""

    def to_row(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "threshold": self.threshold,
            "window_ms": None if self.window_ms is None else list(self.window_ms),
        }


class Proposal(Struct, frozen=True):
    """A change that a finding suggests, with the throughput ratio that a model predicts for it."""

    remedy_id: str
    change: Change
    predicted_ratio: float
    """A :class:`Prediction`, where the model also says what it leaves open."""
    why: str
    cycle_s: float | None = None
    """Seconds between checkpoints, for a change that works through them."""
    predicted_response_ratio: float | None = None
    """The ratio predicted for the mean response time, of a change that is to shorten it without
    less throughput; None: it is to raise the throughput."""
    specific: bool = False
    """True if the change acts on nothing but the cause that the finding names, so that an effect as
    predicted proves the finding. A change that also relieves other limits only shows that it
    helps."""
    guards: bool = False
    """True if the change prevents a fault, as its finding says, and no gain is predicted."""

    @property
    def prediction(self) -> Prediction:
        """The predicted ratio with its interval."""
        return prediction_of(self.predicted_ratio)

    def with_model_error(self) -> Proposal:
        """Return the proposal with the model's own error in its interval."""
        return replace(self, predicted_ratio=self.prediction.with_model_error())

    def to_row(self) -> dict[str, object]:
        """Return the row as JSON values."""
        return {
            "remedy_id": self.remedy_id,
            "change": self.change.to_json(),
            "predicted_ratio": rounded(self.predicted_ratio),
            "predicted_interval": rounded_interval(self.predicted_ratio),
            "predicted_response_ratio": (
                None
                if self.predicted_response_ratio is None
                else rounded(self.predicted_response_ratio)
            ),
            "why": self.why,
            "specific": self.specific,
        }


class Finding(Struct, frozen=True):
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
    advice: str = ""
    """Measures that pgdyno cannot take itself, such as a change of the application; may be ''."""
    commands: tuple[str, ...] = ()
    """SQL or shell commands that remedy it, to type after a look at them."""
    share: float = 0.0
    """Part of the mean response time that belongs to this finding alone, 0 to 1."""
    parts: tuple[str, ...] = ()
    """Parts of the latency budget that it explains, or that were cleared."""
    weight: float = 0.0
    """``share`` times the part of it that would credibly go; what findings are ranked by."""
    about_to_fail: bool = False
    """True if the server will stop soon."""
    momentary: bool = False
    """True if it lasts for moments only: findings with a larger share come before it."""
    crowds_others: bool = False
    """True if findings with a larger share come before it, whatever their weight."""
    causes_distrust: bool = False
    """True if it makes every other finding doubtful."""
    rank: int | None = None
    """1 is the limit; None unless found, and for what is found but too small to be a limit."""
    severity: Severity | None = None
    """Of a rule that needs no load; None: it follows from ``about_to_fail`` and the rank."""
    step: int = 0

    def to_row(self) -> dict[str, object]:
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
            "advice": self.advice,
            "severity": self.severity,
            "commands": list(self.commands),
        }
