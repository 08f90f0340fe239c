"""The result of ``pgdyno branch``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.json_types import Json
from pgdyno.record.part import Part
from pgdyno.results.common import (
    Effect,
    GroupEffect,
    Head,
    Interval95,
    LatencyEffect,
    Measure,
    Outcome,
)


class BranchState(Part):
    """The state that all branches began with, saved while the server was stopped"""

    before_s: float
    """Time under load before it was saved"""
    bytes: int
    """Size of the data directory and the WAL"""
    rows: dict[str, int]
    """Rows of each table of the load"""
    files: int
    """Files of these tables, their indexes and their TOAST tables, of which the digest is"""
    pages_sha256: str
    """Digest of the contents of these files, with their names"""
    method: Literal["clone", "copy"]
    """clone: blocks are shared with the saved state, and no data are copied"""
    file_system: str
    """File system of the data directory"""
    save_seconds: float


class BranchStart(Part):
    """A measurement of a branch, and the state that it began with"""

    round: int
    slice: int
    """The slice from the first event of any branch on"""
    rows: dict[str, int]
    pages_sha256: str
    restore_seconds: float
    """Time to replace the data directory by the saved state"""
    ready_seconds: float
    """Time from the order to stop the server until it accepted connections again on the saved
    state, without the time for the digest"""
    throughput_tps: float
    latency_ms_p99: float | None
    """null: fewer than ten samples beyond it"""
    throughput_tps_before: float | None
    """Before the first event of any branch; null: it came at once, or there is none"""


class BranchEvent(Part):
    at_s: float
    action: str
    """The statement, or the clients"""
    ended: int | None
    """Measurements within which the statement ended; null: not a statement"""
    seconds: float | None
    """Mean time of these; null: none ended"""


class BranchOwnEffect(Part):
    """Throughput from the first event on, relative to before, in the same measurements"""

    throughput_ratio: float
    ci95: Interval95


class MatchPoint(Part):
    clients: int
    throughput_tps: float


class BranchMatch(Part):
    """The clients of a branch that matches another one"""

    branch: str
    """The other one"""
    throughput_tps: float
    """Its throughput from its first event on, in the first round"""
    clients: int
    of_clients: int
    """Clients of the spec"""
    points: tuple[MatchPoint, ...]
    """Numbers of clients that were measured for it, without events"""


class BranchFigures(Part):
    """A branch over all rounds"""

    name: str
    remark: str
    title: str
    """The difference from the spec, in words"""
    change: Json
    match: BranchMatch | None
    """null: its clients are those that the spec gives it"""
    events: tuple[BranchEvent, ...]
    throughput_tps: float
    """Geometric mean of the measurements, from the first event on"""
    throughput_tps_before: float | None
    """Geometric mean before the first event; null: it came at once, or there is none"""
    latency_ms_p99: float | None
    """Geometric mean; null: a measurement has fewer than ten samples beyond it"""
    own_effect: BranchOwnEffect | None
    """null: nothing was measured before the first event"""
    effect: Effect | None
    """Relative to the first branch, paired by round, at a level divided among the branches; null:
    it is the first"""
    latency_p99: LatencyEffect | None
    compared: Measure | None
    """The figure that decides: latency if both branches held a rate"""
    decision: Outcome | None
    """null: it is the first"""
    sentence: str
    groups: tuple[GroupEffect, ...] = ()
    starts: tuple[BranchStart, ...]


class BranchResult(Head):
    model_config = ConfigDict(title="pgdyno branch --format json")

    rounds: int
    state: BranchState
    same_state: bool
    """Every measurement began with the rows and pages of the saved state"""
    branches: tuple[BranchFigures, ...]
    """In the order of the spec; the others are compared with the first"""
    sentence: str
    elapsed_s: float
