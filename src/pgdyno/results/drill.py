"""The result of ``pgdyno drill``."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict

from pgdyno.record.part import Number, Part
from pgdyno.results.chapter import RecordedChapter
from pgdyno.shapes import Json

Facts = Json
"""JSON values by name; each fault has its own names."""
_Rounded3 = Annotated[float, AfterValidator(partial(round, ndigits=3))]
"""A number rounded to three decimals."""
_Rounded4 = Annotated[float, AfterValidator(partial(round, ndigits=4))]


class Proof(Part):
    """Evidence that the fault happened"""

    happened: bool
    sentence: str
    facts: Facts


class Check(Part):
    """A check of the database after the fault"""

    passed: bool | None
    """null: the check was not made; detail gives the reason"""
    detail: str
    seconds: _Rounded3


class Outage(Part):
    """The time without an acknowledged commit in a failover, and its parts in ms"""

    no_commit_ms: _Rounded3
    """From the last acknowledgement by the old primary to the first by the new one"""
    detect_ms: _Rounded3
    """From the fault to the decision that the primary is gone; 0 for a planned switchover"""
    stop_ms: _Rounded3
    """Until all processes of the old primary had ended"""
    promote_ms: _Rounded3
    """The promotion, until the new primary accepts writes"""
    connect_ms: _Rounded3
    """From there, or from the old primary's end, to the first session of a client, or of the
    pooler; 0: such sessions are short and were not seen"""
    commit_ms: _Rounded3
    """From there to the first acknowledged commit"""
    both_ms: _Rounded3
    """Time in which both servers accepted writes"""
    all_back_ms: _Rounded3 | None
    """From the last acknowledgement by the old primary until each client had one by the new
    primary; null: some had none"""
    clients: int
    clients_back: int
    acked_after: int
    """Commits acknowledged by the new primary"""


class Cut(Part):
    """A repetition of the drill"""

    number: int
    variant: str
    """Variant of the fault; '' if the fault has none"""
    seed: int
    """All random choices of this cut follow from it"""
    at_ms: Annotated[float, AfterValidator(partial(round, ndigits=1))]
    """Time of the fault, since the load began"""
    proof: Proof
    acked: int | None
    """Commits acknowledged before the fault; null: nothing could be counted"""
    lost: int | None
    """Acknowledged commits that are absent from the database"""
    lost_ms: _Rounded3 | None
    """From the oldest lost acknowledgement to the fault"""
    ghost: int | None
    """Unknown commits that are present in the database"""
    unknown: int | None
    """Commits under way when the connection ended, so that no client knows their outcome"""
    holes: int | None
    """Absent, although a later commit of the same client is present"""
    phantoms: int | None
    """Present, although certainly not committed"""
    duplicates: int | None
    """Present more than once"""
    recovery_s: _Rounded3 | None
    """From the server's start to its first answer; null: it refused to start"""
    outcome: Literal["clean", "lost", "refused", "corrupt", "no-fault"]
    seen_by: str
    """The check that decided the outcome"""
    server_said: str
    outage: Outage | None
    """Of a failover whose clients came back; null for other faults"""
    checks: dict[str, Check]
    facts: Facts


class Summary(Part):
    """The figures over all cuts"""

    cuts: int
    happened: int
    """Cuts whose fault is proved; all figures below are over these"""
    acked: int
    lost_max: int | None
    lost_median: Number | None
    lost_ms_max: _Rounded3 | None
    lost_ms_median: _Rounded3 | None
    bound_ms: Number | None
    """Documented bound of loss; null: there is none"""
    corrupt: int
    refused: int
    lost: int
    """Cuts that lost commits and are otherwise undamaged"""
    clean: int
    recovery_s_median: _Rounded3 | None
    recovery_s_max: _Rounded3 | None
    no_commit_ms_median: _Rounded3 | None
    """Time without an acknowledged commit in a failover; null for other faults"""
    no_commit_ms_max: _Rounded3 | None
    upper_bound: float | None
    """Upper bound, at 95 % confidence, of the share of such faults that do harm"""
    sentence: str


class Drill(Part):
    """A drill on one server"""

    schema_version: Literal[1]
    run_file: str
    fault: str
    title: str
    seed: int
    sham: bool
    """Everything was done except the fault"""
    server_version: str
    emulated: str | None
    """The emulated disks that recovery times come from; null: none"""
    settings: dict[str, str]
    """The active settings that decide what may be lost"""
    bound: str
    """The loss that the documentation allows, in words"""
    cuts: tuple[Cut, ...]
    summary: Summary


class Difference(Part):
    what: Literal["lost", "lost_ms", "recovery_s", "damaged"]
    here: _Rounded4
    there: _Rounded4
    p: float
    differs: bool
    sentence: str


class DrillResult(Drill):
    model_config = ConfigDict(
        title="pgdyno drill --format json",
        json_schema_extra={"dependentRequired": {"against": ["differences"]}},
    )

    chapter: RecordedChapter | None = None
    """Present if the run is a chapter of a story"""
    against: Drill | None = None
    """The same drill on the other server, with a second --pg-bindir"""
    differences: tuple[Difference, ...] | None = None
