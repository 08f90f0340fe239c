"""The result of ``pgdyno compare``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict

from pgdyno.results.chapter import RecordedChapter
from pgdyno.results.common import (
    ChangeJson,
    Effect,
    FailuresBySide,
    Fields,
    Head,
    IfAbsent,
    Interval95,
    Measure,
    NoiseFloor,
    Outcome,
    Part,
    SetBy,
)
from pgdyno.spec.durability import AssessedClass


class Catalogue(Part):
    """The catalogue of remedies about the change, relative to the settings without it"""

    remedies: tuple[str, ...]
    """Ids of its remedies; the one that may lose most comes first"""
    durability_class: AssessedClass
    """unknown: PostgreSQL's documentation does not say what may be lost"""
    bound: str
    """The most that may be lost, according to PostgreSQL's documentation"""
    drills: tuple[str, ...]
    """The drills in which its price shows"""
    checkpoint_bound: bool
    """Its effect or its price comes with checkpoints: slices began right after a checkpoint and
    include the next one"""
    acts_on_existing_rows: bool
    """false: rows are affected only when they are written again"""
    needs: tuple[Literal["reload", "restart", "client", "table", "rewrite", "layout"], ...]
    """The actions that apply it, as far as known"""
    price: str
    """Its cost even where nothing is lost; empty: nothing is known"""
    not_in_catalogue: tuple[str, ...]
    """The parts of the change that no remedy covers"""


class LatencyEffect(Part):
    """A paired effect on the 99th percentile of the response time"""

    ratio: float
    ci95: Interval95


class BothSides(Part):
    before: float
    after: float


def _not_assessed(_result: Fields) -> Fields:
    lists = ("remedies", "drills", "needs", "not_in_catalogue")
    flags = {"checkpoint_bound": False, "acts_on_existing_rows": True}
    texts = {"durability_class": "unknown", "bound": "", "price": ""}
    return {**texts, **flags, **dict.fromkeys(lists, ())}


class CompareResult(Head):
    model_config = ConfigDict(title="pgdyno compare --format json")

    change: ChangeJson
    catalogue: Catalogue
    set_by: SetBy
    effect: Effect | None
    """null without a verdict"""
    latency_p99: LatencyEffect | None
    """null without a verdict"""
    compared: Measure | None
    """The figure that decides: latency if both sides held a fixed rate"""
    noise_floor: NoiseFloor | None
    """null without a verdict"""
    decision: Outcome | Literal["no verdict"]
    sentence: str
    pairs_needed: int | None
    throughput_tps: BothSides | None
    """Geometric means of the slices of each side; null without a verdict"""
    failures: FailuresBySide | None
    """null without a verdict"""
    chapter: RecordedChapter | None = None
    """The chapter, for a run of a story"""

    if_absent: ClassVar[IfAbsent] = {
        **Head.if_absent,
        "catalogue": _not_assessed,
        "set_by": lambda _: {},
        "failures": lambda _: None,
    }
