"""The result of ``pgdyno vacuum-plan``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.record.part import Number, Part
from pgdyno.results.common import Interval95


class PlannedOption(Part):
    """A storage parameter of a table, or a setting of the server"""

    name: str
    value: Number
    present: Number | None
    """The value that is in force for the table now; null: the default of the server's version"""
    reason: str


class PlannedTable(Part):
    relation: str
    rows: float
    size_bytes: int | None
    """With TOAST, without indexes; null: not known, as it was locked"""
    inserts_h: float
    """Per hour, as are the next ones"""
    updates_h: float
    deletes_h: float
    hot_share: float | None
    """Share of the updates that touched no index; null: no updates"""
    now_every_h: float | None
    """Time between two vacuums for these rates with the present settings; null: never"""
    planned_every_h: float | None
    """With the plan"""
    options: tuple[PlannedOption, ...]
    unsure: tuple[str, ...]
    """Advice that these statistics do not suffice for"""
    statement: str | None
    """null: nothing to change"""


class UnplannedTable(Part):
    relation: str
    why: str


class ProofSide(Part):
    """The model with these settings: means over the rounds"""

    statements: float
    size_ratio: float
    """Size of tables and indexes at the end over that at the beginning"""
    dead_share: float
    """Share of the rows that were dead at the end, by the counters"""
    vacuums: float
    vacuum_io_share: float | None
    """Share of what was read and written that vacuum and analyze read and wrote; null: not counted
    before version 16, or there was nothing"""
    p99_ms: float | None
    """Of the model's statements, each of which changes the rows that are due"""
    to_forced_vacuum_h: float | None
    """Time from the end until autovacuum must freeze the model's oldest table, at the real rate of
    transaction IDs; null: not known"""


class ProofEffect(Part):
    """A figure with the plan over that with the present settings, in pairs, one for each round"""

    ratio: float
    ci95: Interval95


class ProofEffects(Part):
    """null: not counted, or zero in a round"""

    size_ratio: ProofEffect | None
    dead_share: ProofEffect | None
    vacuum_io_share: ProofEffect | None
    p99_ms: ProofEffect | None


class Proof(Part):
    """Both sides on a server of pgdyno, each from the same state in every round"""

    seconds: float
    """Of each side in a round"""
    rounds: int
    times_faster: float
    tables: tuple[str, ...]
    """Tables that were modelled"""
    present: ProofSide
    plan: ProofSide
    effects: ProofEffects | None
    """null: one round shows no interval"""


class VacuumPlanResult(Part):
    """A plan for autovacuum, table by table"""

    model_config = ConfigDict(title="pgdyno vacuum-plan --format json")

    schema_version: Literal[1]
    server: str
    """Without the password"""
    version: str
    database: str
    since: Literal["looks", "statistics reset"]
    over_s: float
    """The time that the rates are of"""
    every_h: float
    """The aim: a busy table is vacuumed about this often"""
    xids_h: float | None
    """Transaction IDs per hour; null: not measured, as rates since the statistics began are not"""
    to_forced_vacuum_h: float | None
    """Time until autovacuum must freeze the oldest table of the database, at that rate; null:
    never, or not known"""
    freeze_max_age: int | None
    """autovacuum_freeze_max_age; null: not known"""
    tables: tuple[PlannedTable, ...]
    """The busiest first"""
    not_planned: tuple[UnplannedTable, ...]
    """Tables about which these statistics say too little"""
    settings: tuple[PlannedOption, ...]
    """Of the server"""
    warnings: tuple[str, ...]
    proof: Proof | None = None
    """null: --prove was not given"""
