"""Findings in words: their names, evidence and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.record.finding import UNEXPLAINED
from pgdyno.report.words.tables import Table

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


def evidence_table(finding: Finding, *, timed: bool = True) -> Table | None:
    """Return the evidence of a finding, with its times if ``timed``; None if there is none."""
    if not finding.evidence:
        return None
    rows = []
    for item in finding.evidence:
        window = item.window_ms
        when = (
            f"{numbers.clock(window[0] / 1000)} to {numbers.clock(window[1] / 1000)}"
            if window and timed
            else ""
        )
        measured = numbers.measured(item.value, item.unit)
        rows.append([item.name, measured, item.threshold or "", when])
    head = ["Evidence", "measured", "threshold", "time"]
    caption, windows = f"Evidence for the {finding_name(finding.id)}", {r[3] for r in rows}
    if len(windows) == 1:  # a common window is in the caption
        head, rows = head[:3], [row[:3] for row in rows]
        caption += f", {windows.pop()}".rstrip(", ")
    return Table(caption, head, rows, right=frozenset((1,)))
