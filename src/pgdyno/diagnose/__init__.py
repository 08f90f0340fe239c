"""Findings from a run file: the bottleneck, its evidence, and proposed changes.

``diagnose`` ranks what the rules find, accounts for the response time and comes to a verdict.
"""

from pgdyno.diagnose._attribution import NamedPart
from pgdyno.diagnose._diagnosis import LIMIT_SHARE_MIN, Diagnosis, diagnose, refusals
from pgdyno.diagnose._seen_load import SeenLoad, SeenStatement, observed
from pgdyno.diagnose._verdict import LimitVerdict
from pgdyno.facts.headroom import LIGHT_SESSIONS
from pgdyno.facts.statement_budgets import StatementTimeBudget
from pgdyno.record.finding import (
    HELD,
    NOTHING,
    UNEXPLAINED,
    Evidence,
    Finding,
    Lack,
    Proposal,
)

__all__ = [
    "HELD",
    "LIGHT_SESSIONS",
    "LIMIT_SHARE_MIN",
    "NOTHING",
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
    "diagnose",
    "observed",
    "refusals",
]
