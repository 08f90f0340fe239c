"""The figures of a drill as the price list has them: one cell for each candidate and fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgdyno.drill.model import Cut, DrillResult, summarise

_CELL_KEYS = (
    *("cuts", "happened", "acked", "lost_median", "lost_max", "lost_ms_median", "lost_ms_max"),
    *("lost", "corrupt", "refused", "clean", "upper_bound", "bound_ms"),
    *("recovery_s_median", "recovery_s_max"),
)


def not_drilled(fault: str, why: str) -> dict[str, Any]:
    """The cell of a drill that was not made."""
    return {"fault": fault, "variant": "", "drilled": False, "why": why}


def cells_of(result: DrillResult) -> list[dict[str, Any]]:
    """The figures of a drill; one cell for each variant where variants are prices of their own."""
    if not result.cuts:
        return [not_drilled(result.fault, "the time was over before its first cut")]
    worse = {cut.number for cut in result.worse_than_bound()}
    return [
        {
            "fault": result.fault,
            "variant": variant,
            "drilled": True,
            "promised": all(cut.facts.get("promised", True) for cut in cuts),
            **_figures(cuts, result.bound_ms),
            "worse_than_bound": sum(cut.number in worse for cut in cuts),
        }
        for variant, cuts in result.questions().items()
    ]


def _figures(cuts: Sequence[Cut], bound_ms: float | None) -> dict[str, Any]:
    summary = summarise(cuts, bound_ms)
    return {key: getattr(summary, key) for key in _CELL_KEYS}
