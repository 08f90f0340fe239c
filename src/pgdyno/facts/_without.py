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

LOG_ERROR = math.log(NOISE)
"""Error of the log of the time that is left: the part was measured in one execution or a few."""


def without_time(
    s: Situation, times_ms: Mapping[Place, float], taken_ms: Mapping[Place, float]
) -> TimedChange:
    """Return statements of these times, with and without what is taken of them."""
    done = s.throughput_tps * s.seconds
    statements = [
        ChangedStatement(
            total=total,
            per_transaction=total.service.count / done,
            ms=ms,
            changed_ms=max(0.0, ms - taken_ms.get(total.place, 0.0)),
            log_error=LOG_ERROR,
            is_replanned=False,
        )
        for total in s.statements
        if (ms := times_ms.get(total.place)) is not None
    ]
    return timed_change(s, Change(), statements)
