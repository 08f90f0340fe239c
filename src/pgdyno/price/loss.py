"""What a crash takes under a candidate: a drill for each fault that shows its price."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdyno.conduct import Session
from pgdyno.drill.drill import run_drill
from pgdyno.drill.model import Cut, DrillOptions, DrillResult, summarise
from pgdyno.errors import Interrupted, PgdynoError
from pgdyno.price.candidates import Candidate

# Faults whose variants are procedures of rescue: each has its own price.
_PRICED_BY_VARIANT = {"wal-device"}
_CELL_KEYS = (
    *("cuts", "happened", "acked", "lost_median", "lost_max", "lost_ms_median", "lost_ms_max"),
    *("lost", "corrupt", "refused", "clean", "upper_bound", "bound_ms"),
    *("recovery_s_median", "recovery_s_max"),
)


@dataclass(frozen=True)
class DrillPlan:
    """How many cuts, and until when."""

    cuts: int
    seed: int
    deadline_s: float
    """On the monotonic clock; no cut begins later."""


def drill_all(
    session: Session, candidates: Sequence[Candidate], plan: DrillPlan
) -> dict[str, list[dict[str, Any]]]:
    """By candidate, what each of its faults took; the session's own server rests meanwhile.

    What this machine or server cannot do is "not drilled" with the reason, and no error.
    """
    cells = [(candidate, fault) for candidate in candidates for fault in candidate.faults]
    losses: dict[str, list[dict[str, Any]]] = {candidate.id: [] for candidate in candidates}
    with session.server_down(), tempfile.TemporaryDirectory(prefix="pgdyno-price-") as folder:
        for number, (candidate, fault) in enumerate(cells):
            session.watcher.phase(f"drill: {fault} under {candidate.title}")
            left_s = plan.deadline_s - time.monotonic()
            path = Path(folder) / f"{number}.db"
            options = DrillOptions(
                fault=fault,
                cuts=plan.cuts,
                seed=plan.seed,
                budget_s=max(left_s / (len(cells) - number), 1.0),
            )
            try:
                result = run_drill(
                    candidate.spec(session.spec), options, watcher=session.watcher, run_path=path
                )
            except Interrupted:
                raise
            except PgdynoError as problem:
                losses[candidate.id].append(not_drilled(fault, problem.message))
                continue
            finally:
                path.unlink(missing_ok=True)
            losses[candidate.id] += cells_of(result)
    return losses


def not_drilled(fault: str, why: str) -> dict[str, Any]:
    """The cell of a drill that was not made."""
    return {"fault": fault, "variant": "", "drilled": False, "why": why}


def cells_of(result: DrillResult) -> list[dict[str, Any]]:
    """The figures of a drill; one cell for each variant where variants are prices of their own."""
    variants: dict[str, list[Cut]] = {}
    for cut in result.cuts:
        variant = cut.variant if result.fault in _PRICED_BY_VARIANT else ""
        variants.setdefault(variant, []).append(cut)
    worse = {cut.number for cut in result.worse_than_bound()}
    return [
        {
            "fault": result.fault,
            "variant": variant,
            "drilled": True,
            **_figures(cuts, result.bound_ms),
            "worse_than_bound": sum(cut.number in worse for cut in cuts),
        }
        for variant, cuts in variants.items()
    ]


def _figures(cuts: Sequence[Cut], bound_ms: float | None) -> dict[str, Any]:
    summary = summarise(cuts, bound_ms)
    return {key: summary[key] for key in _CELL_KEYS}


def no_drills(candidates: Sequence[Candidate], why: str) -> dict[str, list[dict[str, Any]]]:
    """All cells empty, for the same reason."""
    return {
        candidate.id: [not_drilled(fault, why) for fault in candidate.faults]
        for candidate in candidates
    }

