"""Behaviour of a server in the time of a capture, as a check sees it: CPU of a transaction, waits
of sessions, findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from pgdyno.capture._sampling import Samples
from pgdyno.check.observing import Observed
from pgdyno.clone.capture_file import SeenFinding
from pgdyno.record.finding import Finding

_SHARE_MIN = 0.005


class Behaviour(TypedDict):
    """Fields of the source of a capture."""

    cpu_ms: float | None
    waits: dict[str, float] | None
    findings: tuple[SeenFinding, ...] | None


def own_transactions(seen: Observed, samples: Samples) -> int:
    """Return the transactions of the capture's own sessions, without those of ``Readings``."""
    return seen.own_transactions + samples.queries


def behaviour_of(seen: Observed, samples: Samples) -> Behaviour:
    """Return the behaviour in the time of the samples. Of findings only their kinds are kept."""
    transactions = seen.transactions - samples.queries
    known = seen.cpu_ms is not None and transactions > 0
    return {
        "cpu_ms": round((seen.cpu_ms or 0.0) / transactions, 5) if known else None,
        "waits": _shares(samples),
        "findings": None if seen.findings is None else _kinds(seen.findings),
    }


def _kinds(findings: Sequence[Finding]) -> tuple[SeenFinding, ...]:
    return tuple(SeenFinding(each.id, each.severity or "minor") for each in findings)


def _shares(samples: Samples) -> dict[str, float] | None:
    total = samples.waits.total()
    shares = {name: round(seen / total, 3) for name, seen in samples.waits.most_common()}
    return {name: share for name, share in shares.items() if share >= _SHARE_MIN} or None
