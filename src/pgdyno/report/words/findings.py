"""Findings in words: their names, verdicts, the next limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.diagnose import HELD, UNEXPLAINED
from pgdyno.record.finding import Finding
from pgdyno.report.summary import RunSummary
from pgdyno.results.common import Verdict

if TYPE_CHECKING:
    from pgdyno.results.investigate import InvestigateResult


def finding_name(finding: str) -> str:
    """Return an id such as ``commit-flush`` in words."""
    words = finding.replace("-", " ").replace("_", " ").strip().split(" ")
    spelled = {"cpu": "CPU", "wal": "WAL", "io": "I/O", "fpi": "FPI"}
    return " ".join(spelled.get(word, word) for word in words)


def finding_names(findings: Sequence[Finding], status: str) -> list[str]:
    """Return the names of the findings of the last diagnosis with ``status``."""
    last = max((finding.step for finding in findings), default=0)
    return [finding_name(f.id) for f in findings if f.step == last and f.status == status]


def verdict_words(verdict: Verdict) -> str:
    """Return a verdict with the name of its finding."""
    if not verdict.finding or verdict.finding == UNEXPLAINED:
        return verdict.sentence
    return f"{finding_name(verdict.finding)}: {verdict.sentence}"


def next_limit_sentence(summary: RunSummary) -> str:
    """Return the limit after the last step, and why nothing more was tried."""
    if summary.next_limit is None or not summary.steps:
        return ""
    finding, sentence = summary.next_limit
    says_itself = finding in ("", HELD, UNEXPLAINED)
    limit = sentence if says_itself else f"{finding_name(finding)}; {sentence}"
    return f"next limit: {limit}{_reason_of_end(summary.investigation)}"


def _reason_of_end(result: InvestigateResult | None) -> str:
    """Return why nothing more was tried; '' without a result."""
    if result is None:
        return ""
    if result.out_of_time:
        return " (the time budget ended)"
    if any(each.minutes_needed for each in result.not_measured):
        return "; what else is proposed needs a longer budget"
    if result.not_measured:
        return "; nothing else could be measured here"
    least = numbers.percent(result.matters)
    return f"; no other change within {result.allow} is predicted to gain more than {least}"
