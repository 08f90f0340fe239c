"""Findings of a check that are about the server, and not about the machine that others use too."""

from __future__ import annotations

from pgdyno.results.check import CheckResult

_OF_THE_MACHINE = {"other-programs", "cpu-steal", "cpu-throttled", "disk-filling"}


def severe(result: CheckResult) -> set[str]:
    """What will fail, or is the limit."""
    found = {each.id for each in result.findings if each.severity in ("will fail", "limit")}
    return found - _OF_THE_MACHINE
