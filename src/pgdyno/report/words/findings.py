"""Findings in words: their names, verdicts, the next limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno.diagnose import UNEXPLAINED

if TYPE_CHECKING:
    from pgdyno.record.finding import Finding
    from pgdyno.results.common import Verdict


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
