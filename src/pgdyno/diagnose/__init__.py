"""Findings from a run file: the bottleneck, its evidence, and proposed changes.

``diagnose`` ranks what the rules find, accounts for the response time and comes to a verdict.
"""

from pgdyno.diagnose._attribution import NamedPart
from pgdyno.diagnose._changes import sudden_changes
from pgdyno.diagnose._costliest import costliest
from pgdyno.diagnose._diagnosis import (
    LIMIT_SHARE_MIN,
    SECONDS_MIN,
    Diagnosis,
    diagnose,
    refusals,
    too_short,
)
from pgdyno.diagnose._seen_load import SeenLoad, SeenStatement, observed
from pgdyno.diagnose._verdict import HELD, NOTHING, UNEXPLAINED, LimitVerdict
from pgdyno.facts.headroom import LIGHT_SESSIONS
from pgdyno.facts.statement_budgets import StatementTimeBudget
from pgdyno.record.finding import Evidence, Finding, Lack, Proposal

__all__ = [
    "HELD",
    "LIGHT_SESSIONS",
    "LIMIT_SHARE_MIN",
    "NOTHING",
    "SECONDS_MIN",
    "UNEXPLAINED",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Lack",
    "LimitVerdict",
    "NamedPart",
    "Proposal",
    "SeenLoad",
    "SeenStatement",
    "StatementTimeBudget",
    "costliest",
    "diagnose",
    "observed",
    "refusals",
    "sudden_changes",
    "too_short",
]
