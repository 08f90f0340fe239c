"""The error of the parts of the latency budget that are sampled."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import get_args

from pgdyno.facts.budget import Part
from pgdyno.facts.situation import Situation
from pgdyno.record.finding import Skip
from pgdyno.wait_events import Wait

_SAMPLED: frozenset[Part] = frozenset((*get_args(Wait), "images"))
_Z = 1.96
"""Of the normal distribution, at 95 %."""


def sampling_error(s: Situation, parts: Collection[Part]) -> float:
    """Return half the width of the 95 % interval of the time of ``parts``, relative to it; 0 unless
    all of them are waits that were sampled.

    Each sighting of a session of the load is one of them or not, so that their number is binomial.
    """
    share = s.budget.own_share(*parts)
    if not parts or not _SAMPLED.issuperset(parts) or not 0.0 < share < 1.0:
        return 0.0
    try:
        sightings = s.in_service * s.samplings
    except Skip:
        return 0.0
    return _Z * math.sqrt((1.0 - share) / (share * sightings)) if sightings > 0 else 0.0
