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
from pgdyno.drill.model import DrillOptions
from pgdyno.errors import Interrupted, PgdynoError
from pgdyno.price.candidates import Candidate
from pgdyno.price.cells import cells_of, not_drilled


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


def no_drills(candidates: Sequence[Candidate], why: str) -> dict[str, list[dict[str, Any]]]:
    """All cells empty, for the same reason."""
    return {
        candidate.id: [not_drilled(fault, why) for fault in candidate.faults]
        for candidate in candidates
    }
