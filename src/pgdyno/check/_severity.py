"""The severity of findings, and which of them make ``pgdyno check`` fail."""

from __future__ import annotations

from typing import get_args

from pgdyno.diagnose import LIMIT_SHARE_MIN
from pgdyno.diagnose.finding import Finding, Severity
from pgdyno.results.check import CheckFinding, CheckResult

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The worst first."""


def severity_of(finding: Finding, *, light: bool = False) -> Severity:
    """Return how much a finding that was found matters; a light load has no limit."""
    if finding.about_to_fail:
        return "will fail"
    if finding.severity is not None:
        return finding.severity
    if finding.rank is None:
        return "minor"
    return "limit" if finding.share >= LIMIT_SHARE_MIN and not light else "costs"


def findings_at_least(result: CheckResult, least: str) -> list[CheckFinding]:
    """Return the findings of the severity ``least`` or worse."""
    bar = SEVERITIES.index(next(each for each in SEVERITIES if each == least))
    return [each for each in result.findings if SEVERITIES.index(each.severity) <= bar]
