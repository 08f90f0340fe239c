"""Statistics of measurements: pairs, noise, steadiness, changes, scaling.

Pure functions of arrays, without servers or files. The replicate is the pair of slices, not the
second.
"""

from pgdyno.stats._pairs import (
    EFFECT_MATTERS,
    PAIRS_MIN,
    PairedEffect,
    TrialVerdict,
    decide,
    geometric_mean,
    mean_bounds,
    more_pairs_words,
    paired_effect,
    pairs_needed,
)
from pgdyno.stats._plan import SIX_PAIRS, PairPlan, PairSequence, plan_pairs
from pgdyno.stats._two_samples import CONTRAST_MIN, Contrast, contrast, mann_whitney
from pgdyno.stats.changes import change_points
from pgdyno.stats.scaling import ERROR_MAX, ScalabilityLaw, knee
from pgdyno.stats.steady import (
    POINTS_MIN,
    Estimate,
    mean_with_interval,
    steady_from,
    stops_in,
)

__all__ = [
    "CONTRAST_MIN",
    "EFFECT_MATTERS",
    "ERROR_MAX",
    "PAIRS_MIN",
    "POINTS_MIN",
    "SIX_PAIRS",
    "Contrast",
    "Estimate",
    "PairPlan",
    "PairSequence",
    "PairedEffect",
    "ScalabilityLaw",
    "TrialVerdict",
    "change_points",
    "contrast",
    "decide",
    "geometric_mean",
    "knee",
    "mann_whitney",
    "mean_bounds",
    "mean_with_interval",
    "more_pairs_words",
    "paired_effect",
    "pairs_needed",
    "plan_pairs",
    "steady_from",
    "stops_in",
]
