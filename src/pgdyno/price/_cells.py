"""The losses of a drill for the price list: one cell for each variant that has its own price."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.drill.model import Cut, DrillResult, summarise
from pgdyno.results.loss import Drilled, Loss, NotDrilled


def not_drilled(fault: str, why: str) -> NotDrilled:
    """Return the cell of a drill that was not made."""
    return NotDrilled(fault=fault, variant="", drilled=False, why=why)


def cells_of(result: DrillResult) -> list[Loss]:
    """Return the cells of a drill: one for each variant if variants have their own prices."""
    if not result.cuts:
        return [not_drilled(result.fault, "the time was over before its first cut")]
    worse = {cut.number for cut in result.worse_than_bound()}
    return [
        _cell(result, variant, cuts, worse=sum(cut.number in worse for cut in cuts))
        for variant, cuts in result.cuts_by_variant().items()
    ]


def _cell(result: DrillResult, variant: str, cuts: Sequence[Cut], *, worse: int) -> Drilled:
    summary = summarise(cuts, result.bound_ms)
    return Drilled(
        fault=result.fault,
        variant=variant,
        drilled=True,
        promised=all(cut.facts.get("promised", True) for cut in cuts),
        worse_than_bound=worse,
        **summary.model_dump(include={*Drilled.model_fields}),
    )
