"""The result of ``pgdyno price``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.json_types import Json
from pgdyno.record.part import Number, Part
from pgdyno.results.common import (
    FailuresBySide,
    Incidents,
    Interval95,
    Measure,
    NoiseFloor,
    Outcome,
    Postponed,
    SetBy,
)
from pgdyno.results.loss import Loss
from pgdyno.spec.durability import AssessedClass


class Gain(Part):
    """The answer of a candidate's trial"""

    measured: Literal[True]
    set_by: SetBy
    throughput_ratio: float
    ci95: Interval95
    latency_p99_ratio: float
    latency_p99_ci95: Interval95
    pairs: int
    compared: Measure
    verdict: Outcome
    against: tuple[str, ...]
    """Sentences about what speaks against the change: client groups that lose, failures"""
    failures: FailuresBySide
    postponed: tuple[Postponed, ...]
    baseline_tps: float
    """Geometric mean of the unchanged slices of this trial"""
    changed_tps: float
    """Geometric mean of the changed slices of this trial"""


class NotMeasured(Part):
    """The reason why a candidate has no gain"""

    measured: Literal[False]
    why: str


class Price(Part):
    """An entry of the price list"""

    candidate: str
    """Its name on the default list (the ladder), or its settings and keys"""
    title: str
    durability_class: AssessedClass
    remedy: str | None
    change: Json
    """The difference from the other side"""
    base: Json
    """The changes of both sides to the spec"""
    bound: str
    """The most that may be lost, as documented"""
    gain: Gain | NotMeasured | None
    """null for the baseline"""
    losses: tuple[Loss, ...]
    sentence: str


class PriceList(Part):
    """The price list of one server"""

    schema_version: Literal[1]
    run_file: str
    trustworthy: bool
    distrust: tuple[str, ...]
    """The reasons why the figures cannot be trusted; empty if there are none"""
    incidents: Incidents
    server_version: str
    noise_floor: NoiseFloor
    compared: Measure
    """latency_p99 if all clients held a fixed rate on both sides; p99 is then latency at that rate,
    otherwise latency of clients without pauses"""
    cuts: int
    """Maximum number of cuts of each drill"""
    seed: int
    prices: tuple[Price, ...]
    verdict: str
    elapsed_s: float


class Difference(Part):
    """A figure of both servers"""

    candidate: str
    fault: str
    """'' for the gain"""
    what: str
    here: Number
    there: Number
    differs: bool
    sentence: str


class PriceResult(PriceList):
    model_config = ConfigDict(title="pgdyno price --format json")

    against: PriceList | None = None
    """The same price list on the first of two servers"""
    differences: tuple[Difference, ...] | None = None
    """The figures of both servers"""
