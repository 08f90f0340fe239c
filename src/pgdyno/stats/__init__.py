"""Statistics of measurements: pairs, noise, steadiness, changes, scaling.

Pure functions of arrays, without servers or files. The replicate is the pair of slices, not the
second.
"""

from pgdyno.stats._pairs import (
    EFFECT_MATTERS,
    PAIRS_MIN,
    Effect,
    NoiseFloor,
    Verdict,
    decide,
    geometric_mean,
    needs_more_pairs,
    noise_floor,
    paired_effect,
    pairs_needed,
)
from pgdyno.stats._ranks import mann_whitney
from pgdyno.stats.changes import change_points
from pgdyno.stats.scaling import ERROR_MAX, Knee, knee
from pgdyno.stats.steady import (
    POINTS_MIN,
    Estimate,
    effective_size,
    mean_with_interval,
    steady_from,
)

__all__ = [
    "EFFECT_MATTERS",
    "ERROR_MAX",
    "PAIRS_MIN",
    "POINTS_MIN",
    "Effect",
    "Estimate",
    "Knee",
    "NoiseFloor",
    "Verdict",
    "change_points",
    "decide",
    "effective_size",
    "geometric_mean",
    "knee",
    "mann_whitney",
    "mean_with_interval",
    "needs_more_pairs",
    "noise_floor",
    "paired_effect",
    "pairs_needed",
    "steady_from",
]
