"""The result of ``pgdyno investigate``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.json_types import Json
from pgdyno.record.part import Part
from pgdyno.results.budget import LatencyBudget
from pgdyno.results.common import (
    BothSides,
    Effect,
    FailuresBySide,
    Head,
    LatencyEffect,
    Measure,
    NoiseFloor,
    Outcome,
    Postponed,
    SetBy,
    UnusualSettings,
    Verdict,
)
from pgdyno.results.knee import Capacity
from pgdyno.results.loss import Loss
from pgdyno.results.run_parts import Web
from pgdyno.spec.durability import AssessedClass, DurabilityClass

Decision = Literal["kept", "rejected", "offered", "taken back", "still earns", "inconclusive"]
"""Inconclusive: a remedy is not kept, and one that was kept before stays kept."""


class TriedRemedy(Part):
    id: str
    title: str
    change: Json
    durability_class: AssessedClass


class Proof(Part):
    """The finding after the trial of its remedy"""

    status: Literal["proved", "helped"]
    """proved: the remedy is specific to the finding and moved the throughput as predicted"""
    why: str


class Step(Part):
    """A remedy that was measured, and the decision about it"""

    finding: str
    remedy: TriedRemedy
    specific: bool
    """true: the remedy acts on nothing but the cause that the finding names"""
    predicted_ratio: float | None
    """null: nothing was predicted"""
    predicted_interval: tuple[float, float] | None
    """The ratios that the model leaves open; null: it does not say"""
    predicted_response_ratio: float | None
    """Of the mean response time, for a change that is to shorten it without less throughput; null:
    it is to raise the throughput"""
    tolerance: tuple[float, float] | None
    """The smallest and the largest ratio that count as predicted; null: no gain was predicted"""
    set_by: SetBy
    effect: Effect
    latency_p99_ratio: float
    compared: Measure
    failures: FailuresBySide
    postponed: tuple[Postponed, ...]
    verdict: Outcome
    against: tuple[str, ...]
    """Sentences about what speaks against the change: client groups that lose, failures"""
    pairs_needed: int | None
    """Approximate number of further pairs that would decide it; null: decided, or too many"""
    decision: Decision
    proof: Proof | None
    """null: the remedy did not improve the figures, or was not meant to"""


class NotMeasured(Part):
    remedy: str
    title: str
    why: str
    minutes_needed: int | None
    """The approximate budget that it needs, if this one is too short for its slices; else null"""


class Total(Part):
    """The spec as it was against everything kept, in one paired trial"""

    trial: int
    """Id of the trial in the run file"""
    effect: Effect
    latency_p99: LatencyEffect
    compared: Measure
    throughput_tps: BothSides
    latency_ms_p99: BothSides
    failures: FailuresBySide
    postponed: tuple[Postponed, ...]
    verdict: Outcome
    pairs_needed: int | None
    sentence: str


class RemedyPrice(Part):
    title: str
    remedy: str | None
    durability_class: AssessedClass
    change: Json
    bound: str
    """The most that may be lost, as documented"""
    losses: tuple[Loss, ...]
    """An entry for each drill, as in result-price.schema.json"""
    sentence: str


class InvestigateResult(Head):
    model_config = ConfigDict(title="pgdyno investigate --format json")

    steps: tuple[Step, ...]
    not_measured: tuple[NotMeasured, ...]
    allow: DurabilityClass
    kept: Json
    total: Total | None
    """null: nothing was kept, or total_absent has the reason"""
    total_absent: str | None
    """The reason why the effect of everything kept was not measured"""
    baseline_tps: float
    """Without a change: geometric mean of the unchanged slices of the total; without one, the mean
    of the slice before the trials"""
    final_tps: float | None
    """With all kept changes: geometric mean of the changed slices of the total; baseline_tps if
    nothing was kept; null if the total was not measured"""
    baseline_latency_ms_p99: float
    """p99 of the slices of baseline_tps"""
    final_latency_ms_p99: float | None
    """p99 of the slices of final_tps"""
    noise_floor: NoiseFloor
    matters: float
    """The smallest effect on throughput that matters (--matters), as a fraction"""
    next_limit: Verdict
    latency_budget: LatencyBudget | None
    """Parts of the mean response time in the state of next_limit; null: not diagnosed"""
    unusual_settings: UnusualSettings = None
    out_of_time: bool
    elapsed_s: float
    verdict: Verdict
    prices: tuple[RemedyPrice, ...] | None = None
    """The losses in a crash under each remedy of class D1 and worse that was kept or offered;
    absent without pricing"""
    web: Web | None = None
    """Requests beside the database's work; absent unless a web server was loaded"""
    capacity: Capacity | None = None
    """The most that the server takes with everything kept; absent without --knee"""
