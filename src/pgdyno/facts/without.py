"""The load's statements without a part of their time that was measured, where there is no change
that could be tried."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pgdyno.facts.plans import ChangedStatement, TimedChange, timed_change
from pgdyno.facts.situation import Situation
from pgdyno.plans import NOISE
from pgdyno.record import Place
from pgdyno.spec.change import Change

LEFT_MIN = 1e-3
"""Part of a statement's time that is left at least."""


def without_time(
    s: Situation, times_ms: Mapping[Place, float], taken_ms: Mapping[Place, float]
) -> TimedChange:
    """Return statements of these times, with and without what is taken of them: by the least that
    may go, ``NOISE`` times less, as it was measured in one execution or a few."""
    done = s.throughput_tps * s.seconds
    statements = []
    for total in s.statements:
        if (ms := times_ms.get(total.place)) is None:
            continue
        taken = min(ms, taken_ms.get(total.place, 0.0))
        left_ms = max(LEFT_MIN * ms, ms - taken)
        statements.append(
            ChangedStatement(
                total=total,
                per_transaction=total.service.count / done,
                ms=ms,
                changed_ms=left_ms,
                log_error=math.log((ms - taken / NOISE) / left_ms) if taken > 0 else 0.0,
                is_replanned=False,
            )
        )
    return timed_change(s, Change(), statements)
