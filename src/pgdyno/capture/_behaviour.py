"""Behaviour of a server in the time of a capture, as a check sees it: CPU of a transaction, waits
of sessions, findings."""

from __future__ import annotations

from typing import TypedDict

from pgdyno.capture._sampling import Samples
from pgdyno.check.observing import Observed
from pgdyno.clone.capture_file import SeenFinding

_SHARE_MIN = 0.005


class Behaviour(TypedDict):
    """Fields of the source of a capture."""

    cpu_ms: float | None
    waits: dict[str, float] | None
    findings: tuple[SeenFinding, ...]


def own_transactions(seen: Observed, samples: Samples) -> int:
    """Return the transactions of the capture's own sessions."""
    return seen.own_transactions + samples.looks


def behaviour_of(seen: Observed, samples: Samples) -> Behaviour:
    """Return the behaviour in the time of the samples. Of findings only their kinds are kept."""
    transactions = seen.transactions - samples.looks
    known = seen.cpu_ms is not None and transactions > 0
    return {
        "cpu_ms": round((seen.cpu_ms or 0.0) / transactions, 5) if known else None,
        "waits": _shares(seen),
        "findings": tuple(SeenFinding(each.id, each.severity or "minor") for each in seen.findings),
    }


def _shares(seen: Observed) -> dict[str, float] | None:
    waits = seen.waits or {}
    total = sum(waits.values())
    if not total:
        return None
    shares = {name: round(sessions / total, 3) for name, sessions in waits.items()}
    return {
        name: share
        for name, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= _SHARE_MIN
    }
