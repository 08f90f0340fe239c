"""Findings, with their evidence and the changes that they propose: as diagnosed, as rows of a run
file, and as JSON."""

from enum import Enum, auto
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from pgdyno.numbers import rounded
from pgdyno.record.part import Fact, Number
from pgdyno.spec.change import Change
from pgdyno.spec.durability import AssessedClass
from pgdyno.stats.prediction import Prediction

Status = Literal["found", "helped", "proved", "cleared", "skipped"]
"""helped: one of its proposals improved the figures; proved: one that acts on nothing else did, as
predicted; skipped: not checked."""
Severity = Literal["will fail", "limit", "costs", "minor"]
"""Weight of a finding for those who run the server, the worst first:

- will fail: the server will stop, or refuse work (disk, transaction IDs, connections, a sequence);
- limit: a limit of the load at present, by its share of the time;
- costs: time, space or safety is lost that need not be, but it is no limit at present;
- minor: worth knowing.
"""
HELD = "held"
UNEXPLAINED = "unexplained"
NOTHING = "nothing-found"
"""Verdicts that name no finding: the load holds its rate; too much of the response time is not
named; all of it is, and none of it is a limit."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The worst first."""
Window = tuple[int, int]
Rounded = Annotated[float, PlainSerializer(rounded)]


class Lack(Enum):
    """Something without which a check is skipped, and which a user can supply."""

    RIGHTS = auto()
    """Membership in pg_monitor."""
    CORES = auto()
    """The number of cores of the server's machine."""
    CLIENTS = auto()
    """The clients' own figures, as the load is not pgdyno's."""
    SECONDS = auto()
    """Figures for each second, as the load is not pgdyno's."""


class Skip(Exception):
    """The run does not hold what the check needs; the text says what is missing and why."""

    def __init__(self, why: str, lack: Lack | None = None) -> None:
        super().__init__(why)
        self.lack = lack


class Evidence(Fact):
    """A named number that supports a finding."""

    name: str
    value: int | float | str | None
    unit: str
    """"share" (0 to 1), "ms", "tps", "count", "bytes", "bytes/s", "cores", … or ""."""
    threshold: str | None = None
    """Threshold for the value, as text: "at least 30 %"."""
    window_ms: tuple[Number, Number] | None = None
    """Start and end, in milliseconds since the run's start."""


class Proposal(Fact):
    """A change that a finding suggests, with the throughput ratio that a model predicts for it."""

    remedy_id: str
    change: Annotated[
        Change,
        PlainValidator(lambda given: Change.from_json(given) if isinstance(given, dict) else given),
        PlainSerializer(Change.to_json),
        WithJsonSchema({"type": "object", "additionalProperties": True}),
    ]
    predicted_ratio: Rounded
    predicted_interval: tuple[Rounded, Rounded] | None = None
    """The ratios that the model leaves open; null: it does not say"""
    predicted_response_ratio: Rounded | None = None
    """Of the mean response time, for a change that is to shorten it without less throughput; null:
    it is to raise the throughput"""
    why: str
    specific: bool = False
    """true: it acts on nothing but the cause that the finding names, so that an effect as predicted
    proves the finding"""
    guards: bool = False
    """true: it prevents a fault, as the finding says, and no gain is predicted"""
    cycle_s: float | None = None
    """Seconds between checkpoints, of a change that works through them"""

    @model_validator(mode="before")
    @classmethod
    def _with_its_interval(cls, members: dict[str, Any]) -> dict[str, Any]:
        ratio = members.get("predicted_ratio")
        if isinstance(ratio, Prediction):
            return {"predicted_interval": ratio.interval, **members}
        return members

    @property
    def prediction(self) -> Prediction:
        """The predicted ratio with its interval."""
        return Prediction(self.predicted_ratio, *self.predicted_interval or ())

    def with_model_error(self, measuring: float) -> Self:
        """Return the proposal with the model's own error in its interval, and that of
        ``measuring``, relative."""
        interval = self.prediction.with_model_error(measuring).interval
        return self.model_copy(update={"predicted_interval": interval})

    def limited(self, most: float) -> Self:
        """Return the proposal with no larger ratio than ``most``. Where that is no gain, as at a
        rate that is held, it is to shorten the response time."""
        prediction = self.prediction.limited(most)
        members: dict[str, Any] = {
            "predicted_ratio": float(prediction),
            "predicted_interval": prediction.interval,
        }
        if most <= 1.0 < self.predicted_ratio:
            members["predicted_response_ratio"] = 1.0 / self.predicted_ratio
        return self.model_copy(update=members)


class ProvingCommand(Fact):
    """A command that measures a proposal"""

    title: str
    """The change"""
    command: str
    """The command that measures its effect on the server, or where that would be restarted, on a
    copy; SCRIPT.sql stands for the application's statements, SNAPSHOT for a saved copy of its
    tables"""
    predicted_ratio: Rounded | None
    """Of the throughput; null: unknown, or none"""
    guards: bool
    """true: it prevents a fault, and no gain is predicted"""
    durability_class: AssessedClass
    why: str


class Finding(Fact):
    """The answer of a rule on a period of a run."""

    id: str
    step: int = 0
    """0: at the start; n: after n kept changes"""
    status: Status
    """helped: one of its proposals improved the figures; proved: one that acts on nothing else did,
    as predicted"""
    rank: int | None = None
    """1: the limit; null: not found, or found but too small to be a limit of this load"""
    severity: Severity | None = None
    """will fail: the server will stop or refuse work; limit: a limit of the load at present; costs:
    time, space or safety is lost, but it is no limit at present; minor: worth knowing; null: not
    found"""
    sentence: str
    """The verdict, readable on its own, without a final period"""
    share: Rounded | None = None
    """Share of the mean response time that is due to it; null: not found, or needs no load"""
    parts: tuple[str, ...] = ()
    """Parts of the latency budget that it explains, or that were cleared"""
    confidence: float | None = None
    """0 to 1: that it is none of its false positives; null: not found"""
    evidence: tuple[Evidence, ...] = ()
    false_positives: str = ""
    """Circumstances that would make it wrong"""
    causes: tuple[str, ...] = ()
    """Findings of which it is a symptom"""
    proposals: tuple[Proposal, ...] = Field(default=(), alias="remedies")
    """The best predicted first"""
    advice: str = ""
    """Measures that pgdyno cannot take itself; "" if there are none"""
    commands: tuple[str, ...] = ()
    """SQL or shell commands that remedy it, to review before running them"""
    prove: tuple[ProvingCommand, ...] = ()
    """Commands that measure its proposals on a server that pgdyno did not load"""
    weight: float = Field(default=0.0, exclude=True)
    """The part of the response time that would go, at the cautious end of ``gain``, or credibly:
    findings are ranked by it."""
    gain: float | None = Field(default=None, exclude=True)
    """Predicted ratio of throughput without it; proposals have their own."""
    gain_min: float | None = Field(default=None, exclude=True)
    """The cautious end of ``gain``."""
    momentary: bool = Field(default=False, exclude=True)
    """True if it lasts for moments only: findings with a larger share come before it."""
    masks_other_gains: bool = Field(default=False, exclude=True)
    """True if findings with a larger share come before it, whatever their weight."""
    causes_distrust: bool = Field(default=False, exclude=True)
    """True if it makes every other finding doubtful."""
    skip: str = Field(default="", exclude=True)
    """The reason of one that was skipped."""
    lack: Lack | None = Field(default=None, exclude=True)
    """The cause of that, where a user can mend it."""

    @classmethod
    def skipped(cls, name: str, reason: Skip) -> Self:
        """Return the finding of a check that was skipped."""
        why = str(reason)
        sentence = f"not checked: {why}"
        return cls(id=name, status="skipped", sentence=sentence, skip=why, lack=reason.lack)

    @property
    def was_found(self) -> bool:
        """True unless it was cleared or skipped."""
        return self.status not in ("cleared", "skipped")

    @property
    def is_about_to_fail(self) -> bool:
        """True if the server will stop, or refuse work."""
        return self.severity == "will fail"
