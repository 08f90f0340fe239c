"""The result of ``pgdyno age``."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.record.part import Part
from pgdyno.results.common import Head


class AgePeriod(Part):
    """A period under load"""

    seconds: float
    throughput_tps: float
    latency_ms_p99: float | None
    """null: fewer than ten samples beyond it"""
    reads_done: int
    """Statements that only read"""
    writes_done: int
    """Other statements; an update that finds no row needs no ID and is done at any age"""
    refused: int
    """Transactions refused because the server assigns no more IDs (SQLSTATE 54000)"""
    failed: int
    """Transactions that failed for other reasons"""
    vacuums: int
    """Tables that autovacuum vacuumed to prevent wraparound, from the server's log"""
    failsafe: int
    """Vacuums that went on without cost delay and indexes because of vacuum_failsafe_age, or
    vacuum_multixact_failsafe_age"""
    failsafe_tables: tuple[str, ...]
    """Tables of the load among these"""
    warnings: int
    """Warnings that a database must be vacuumed, in the server's log"""


class AgeRecovery(Part):
    """The way back: the pin removed, autovacuum_naptime 1 s"""

    below: int
    """Age below which the server is recovered: that at which freezing is forced"""
    age: int
    """Age at the end"""
    seconds: float | None
    """Time until the age was below; null: not within the limit"""
    writes_seconds: float | None
    """Time until the server assigned IDs again; null: it never stopped, or not within the limit"""
    period: AgePeriod


class AgeTable(Part):
    """Rows of a table"""

    table: str
    before: int
    """Before the age was raised"""
    inserted: int | None
    """Rows whose insertion was acknowledged under load; null: its statements do not tell"""
    after: int
    """At the end"""
    complete: bool | None
    """false: rows are missing, or there are rows that nobody inserted; null: not known"""


class AgeCheck(Part):
    name: str
    passed: bool | None
    """null: not checked"""
    detail: str


class AgeResult(Head):
    model_config = ConfigDict(title="pgdyno age --format json")

    of: Literal["xid", "mxid"]
    """IDs whose age was raised: of transactions, or of multixacts"""
    requested: int
    age_before: int
    age: int
    """Age that the oldest ID had then: the requested one, up to the end of a page of IDs"""
    seconds: float
    """Time to raise it, from the order to stop the server until it accepts connections again"""
    sentence: str
    before: AgePeriod
    """Before the age was raised"""
    under_age: AgePeriod
    recovery: AgeRecovery | None
    """null: the age is not one at which freezing is forced"""
    tables: tuple[AgeTable, ...]
    checks: tuple[AgeCheck, ...]
    elapsed_s: float
