"""The result of ``pgdyno compare``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.json_types import Json
from pgdyno.record.part import Part
from pgdyno.results.chapter import RecordedChapter
from pgdyno.results.common import (
    BothSides,
    Effect,
    FailuresBySide,
    GroupEffect,
    Head,
    Interval95,
    LatencyEffect,
    Measure,
    NoiseFloor,
    Outcome,
    Postponed,
    SetBy,
)
from pgdyno.results.plans import ComparedPlans
from pgdyno.results.versions import ComparedVersions
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
    needs: tuple[
        Literal[
            "reload", "restart", "client", "table", "index", "rewrite", "layout", "machine", "sql"
        ],
        ...,
    ]
    """The actions that apply it, as far as known"""
    price: str
    """Its cost even where nothing is lost; empty: nothing is known"""
    not_in_catalogue: tuple[str, ...]
    """The parts of the change that no remedy covers"""


class ComparedProfile(Part):
    """The profile on the changed side, as far as this server takes it"""

    name: str
    left_out: tuple[str, ...]
    """Lines of a profile of pgdyno's that this server cannot have"""
    remarks: tuple[str, ...]
    """Lines without effect, and others that deserve a look"""


class LineEffect(Part):
    """The effect of lines beside all others that were left: of throughput, or of p99 where both
    sides held a rate"""

    ratio: float
    ci95: Interval95
    pairs: int


class ProfileLine(Part):
    """A line of the profile"""

    line: int
    """Number of the line in the file"""
    setting: str
    value: str
    effect: LineEffect | None
    """With the lines in taken_back_with, in the last trial of them; null: not taken back"""
    taken_back_with: tuple[str, ...]
    """The lines that were taken back together with it"""
    durability_class: AssessedClass
    """The class of what it may lose beside the other lines"""
    bound: str
    """The most that may be lost, according to PostgreSQL's documentation"""
    kept: bool
    """It is in the shortest profile"""
    reason: str
    """The reason why it is kept or left out, in a few words"""
    sentence: str
    """The reason with figures"""


class Ablation(Part):
    """The search for the lines that make the difference"""

    trials: int
    """Trials in which lines were taken back"""
    slice_seconds: float | None
    """null: no line was taken back"""
    shortest_effect: LineEffect | None
    """The shortest profile against none, in fresh pairs, at 97.5 %; null: not measured"""
    against_whole: LineEffect | None
    """The shortest profile against the whole one, in fresh pairs, at 97.5 %; null: not measured"""
    sentence: str
    chance: str
    """A sentence about what may be due to chance, with so many trials; empty without trials"""


class ComparedSql(Part):
    """SQL of the user's on the changed side"""

    make: tuple[str, ...]
    """The statements of --sql"""
    undo: tuple[str, ...]
    """The statements of --undo-sql"""
    make_ms: float | None
    """Median time of all times that the change was made, without a load; null: never"""
    undo_ms: float | None
    """Median time of its undo; null: never"""
    times: int
    """Number of times that it was made, the first before the load"""


class CompareResult(Head):
    model_config = ConfigDict(title="pgdyno compare --format json")

    change: Json
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
    matters: float | None
    """The smallest effect that matters (--matters), as a fraction; null: no verdict"""
    decision: Outcome | Literal["no verdict"]
    sentence: str
    pairs_needed: int | None
    throughput_tps: BothSides | None
    """Geometric means of the slices of each side; null without a verdict"""
    failures: FailuresBySide | None
    """null without a verdict"""
    postponed: tuple[Postponed, ...]
    against: tuple[str, ...] = ()
    """Sentences about what speaks against the change: client groups that lose, failures"""
    groups: tuple[GroupEffect, ...] = ()
    """The effect on each client group, if there are several"""
    plans: ComparedPlans | None = None
    """Plans without the change (a) and with it (b), explained after the load and not executed;
    null: not looked at, as where the sides have different scripts"""
    chapter: RecordedChapter | None = None
    """The chapter, for a run of a story"""
    profile: ComparedProfile | None = None
    """The profile, if one was compared"""
    lines: tuple[ProfileLine, ...] = ()
    """The lines of the profile, with --ablate"""
    shortest: str | None = None
    """The shortest profile that keeps the gain, in the syntax of postgresql.conf; null: no line was
    taken back"""
    ablation: Ablation | None = None
    """With --ablate"""
    sql: ComparedSql | None = None
    """With --sql"""
    versions: ComparedVersions | None = None
    """With --against: both builds, and what differs in them, as shipped and levelled"""
