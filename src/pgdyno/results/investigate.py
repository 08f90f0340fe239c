"""The result of ``pgdyno investigate``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict

from pgdyno.results.common import (
    ChangeJson,
    Effect,
    FailuresBySide,
    Head,
    IfAbsent,
    Measure,
    NoiseFloor,
    Outcome,
    Part,
    SetBy,
    Verdict,
)
from pgdyno.results.loss import Loss
from pgdyno.spec.durability import AssessedClass, DurabilityClass

Decision = Literal["kept", "rejected", "offered", "taken back", "still earns"]


class TriedRemedy(Part):
    id: str
    title: str
    change: ChangeJson
    durability_class: AssessedClass


class Step(Part):
    """A remedy that was measured, and the decision about it"""

    finding: str
    remedy: TriedRemedy
    predicted_ratio: float
    set_by: SetBy
    effect: Effect
    latency_p99_ratio: float
    compared: Measure
    failures: FailuresBySide | None
    """null: not recorded"""
    verdict: Outcome
    decision: Decision

    if_absent: ClassVar[IfAbsent] = {"set_by": lambda _: {}, "failures": lambda _: None}


class NotMeasured(Part):
    remedy: str
    title: str
    why: str


class RemedyPrice(Part):
    title: str
    remedy: str | None
    durability_class: AssessedClass
    change: ChangeJson
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
    kept: ChangeJson
    baseline_tps: float
    """Without a change: geometric mean of the unchanged slices in the trial of the first kept
    change; if nothing was kept, the mean of the slice before the trials"""
    final_tps: float
    """With all kept changes: baseline_tps times the ratios of their trials"""
    baseline_latency_ms_p99: float
    """p99 of the slices of baseline_tps"""
    final_latency_ms_p99: float
    """baseline_latency_ms_p99 times the ratios of the trials"""
    noise_floor: NoiseFloor
    next_limit: Verdict
    out_of_time: bool
    elapsed_s: float
    verdict: Verdict
    prices: tuple[RemedyPrice, ...] | None = None
    """The losses in a crash under each remedy of class D1 and worse that was kept or offered;
    absent without pricing"""
