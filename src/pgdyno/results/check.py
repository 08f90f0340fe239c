"""The result of ``pgdyno check``."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import ConfigDict

from pgdyno.record.finding import SEVERITIES, Finding, Severity
from pgdyno.record.part import Part
from pgdyno.record.write_probe import WriteProbe
from pgdyno.results.run_parts import CostliestStatement

if TYPE_CHECKING:
    from pgdyno.record import RunFile


class CheckedServer(Part):
    uri: str
    """Without the password"""
    version: str
    database: str
    """Its tables, indexes and statements were looked at; transactions, waits and the machine are of
    all databases"""
    in_recovery: bool
    """true: a standby"""


class WaitEvent(Part):
    event: str
    """Type and event, as pg_stat_activity has them: IO:WalSync; CPU: no wait; idle in transaction:
    it waits for its client within a transaction"""
    sessions: float
    """On average"""


class BusyStatement(Part):
    statement: str
    """Without values, shortened"""
    sessions: float | None
    """On average, at work on it, its commit included, as sampled; null: hidden from this role"""
    calls_s: float | None
    """Executions per second by pg_stat_statements; null, as are the next three: not counted"""
    mean_ms: float | None
    """Mean time of an execution, without that of a commit"""
    wal_bytes_s: float | None
    blocks_read_s: float | None


class ObservedLoad(Part):
    """The load of others on the server within the window"""

    transactions_s: float | None
    """Commits and rollbacks of all databases; null: not counted"""
    sessions: int
    """The most client sessions at one time, in any state"""
    at_work: float | None
    """Average number of client sessions in a transaction; null: hidden from this role"""
    cores: float | None
    """null: not known"""
    samplings: int
    """Number of looks at the waits of all sessions"""
    waits: tuple[WaitEvent, ...]
    """Of the sessions in a transaction, the largest first"""
    statements: tuple[BusyStatement, ...]
    """Those that take the most time first"""
    costliest: CostliestStatement


class ClearedCheck(Part):
    id: str
    sentence: str


class NotChecked(Part):
    subject: str
    why: str
    allow: str
    """A grant, an extension, a setting or a command that would allow it; "" if nothing would"""
    checks: tuple[str, ...]
    """The checks that did not judge it"""


class CheckResult(Part):
    """A server under the load of others, looked at without a load"""

    model_config = ConfigDict(title="pgdyno check --format json")

    schema_version: Literal[1]
    run_file: str | None
    """null: not kept"""
    server: CheckedServer
    verdict: str
    worst: Severity | None
    """null: nothing was found"""
    findings: tuple[Finding, ...]
    """The worst first, then by rank"""
    cleared: tuple[ClearedCheck, ...]
    not_checked: tuple[NotChecked, ...]
    load: ObservedLoad
    write_probe: WriteProbe | None
    """null: not asked for, or not possible, as ``not_checked`` says"""
    seconds: float
    """Time that the check took"""

    in_tables: ClassVar[tuple[str, ...]] = ("findings", "cleared")

    @classmethod
    def of_tables(cls, run: "RunFile") -> dict[str, object]:
        """Return the findings, and the checks that were cleared."""
        return cls.of_findings(run.findings())

    @classmethod
    def of_findings(cls, findings: Sequence[Finding]) -> dict[str, object]:
        """Return the members that consist of findings."""
        cleared = [each for each in findings if each.status == "cleared"]
        return {
            "findings": worst_first(findings),
            "cleared": [ClearedCheck(id=each.id, sentence=each.sentence) for each in cleared],
        }


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return those that were found, the worst first, then by rank."""

    def order(finding: Finding) -> tuple[int, float]:
        return SEVERITIES.index(finding.severity or "minor"), finding.rank or math.inf

    return tuple(sorted((each for each in findings if each.status == "found"), key=order))


def at_least(findings: Iterable[Finding], severity: str) -> list[Finding]:
    """Return the findings of this severity, or a worse one."""
    severe = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return [each for each in findings if each.severity in severe]
