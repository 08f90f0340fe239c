"""The latency budget in results: the parts that the mean response time consists of."""

from typing import Literal

from pgdyno.record.part import Part


class BudgetEvent(Part):
    """A wait event of the server"""

    event: str
    """Type and event, as pg_stat_activity has them: IO:WalSync"""
    share: float
    """Share of the mean response time"""


class StatementPart(Part):
    part: str
    words: str
    ms: float
    """Mean time of each execution"""
    wait_events: tuple[str, ...]


class BudgetPart(Part):
    part: str
    words: str
    ms: float
    """Mean time of each transaction"""
    share: float
    """Share of the mean response time"""
    status: Literal["explained", "own work", "cleared", "behind others", "unexplained"]
    findings: tuple[str, ...]
    """Findings that explain it, or rules that cleared it"""
    wait_events: tuple[BudgetEvent, ...]


class StatementBudget(Part):
    """A statement of a script. Its parts add up to its mean service time"""

    group: str
    script: str
    statement: str
    executions_per_transaction: float
    """Of all transactions of the load"""
    ms: float
    """Mean time of each execution"""
    share: float
    """Share of the mean response time of a transaction"""
    parts: tuple[StatementPart, ...]


class LatencyBudget(Part):
    """The mean response time by part. The parts, the largest first, add up to it"""

    response_ms: float
    parts: tuple[BudgetPart, ...]
    unexplained_share: float
    statements: tuple[StatementBudget, ...]
    """Those that take the most time first"""
    missing: tuple[str, ...]
    """Sentences about records that are missing, and time that cannot be divided; the last is true
    of every budget"""
