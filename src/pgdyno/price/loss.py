"""What a crash takes under a candidate: a drill for each fault that shows its price."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdyno.conduct import Session
from pgdyno.drill.drill import run_drill
from pgdyno.drill.model import DrillOptions, DrillResult
from pgdyno.drill.stored import store_cut, store_drill
from pgdyno.errors import Interrupted, PgdynoError
from pgdyno.price.candidates import Candidate
from pgdyno.price.cells import cells_of, not_drilled

_SECONDS_MIN = {"kill": 10.0, "power": 25.0, "wal-device": 20.0}
"""What a drill has at least, however late it is: enough for a cut or two. Their shares of the time
are in the same proportion."""
_START_SECONDS = 5.0
"""Of a drill's share, what passes before it counts: a server, its tables."""


@dataclass(frozen=True)
class DrillPlan:
    """How many cuts, and until when."""

    cuts: Mapping[str, int]
    """By fault."""
    seed: int
    deadline_s: float
    """On the monotonic clock; no cut begins later."""


@dataclass(frozen=True)
class Drilled:
    """What drills took."""

    cells: Mapping[str, Sequence[Mapping[str, Any]]]
    """By candidate, a cell of the price list for each drill."""
    drills: Mapping[tuple[str, str], DrillResult]
    """By candidate and fault, those that were made."""


def drill_all(session: Session, candidates: Sequence[Candidate], plan: DrillPlan) -> Drilled:
    """What each fault of each candidate took; the session's own server rests meanwhile.

    What this machine or server cannot do is "not drilled" with the reason, and no error.
    """
    asked = [(candidate, fault) for candidate in candidates for fault in candidate.faults]
    cells: dict[str, list[Mapping[str, Any]]] = {candidate.id: [] for candidate in candidates}
    drills: dict[tuple[str, str], DrillResult] = {}
    with session.server_down(), tempfile.TemporaryDirectory(prefix="pgdyno-price-") as folder:
        for number, (candidate, fault) in enumerate(asked):
            session.watcher.phase(f"drill: {fault} under {candidate.title}")
            path = Path(folder) / f"{number}.db"
            options = DrillOptions(
                fault=fault,
                cuts=plan.cuts[fault],
                seed=plan.seed,
                budget_s=_share_s(plan, [each for _, each in asked[number:]]),
            )
            try:
                result = run_drill(
                    candidate.spec(session.spec), options, watcher=session.watcher, run_path=path
                )
            except Interrupted:
                raise
            except PgdynoError as problem:
                cells[candidate.id].append(not_drilled(fault, problem.message))
                continue
            finally:
                path.unlink(missing_ok=True)
            drills[candidate.id, fault] = result
            cells[candidate.id] += cells_of(result)
            _record(session, result, options)
    return Drilled(cells, drills)


def _share_s(plan: DrillPlan, faults: Sequence[str]) -> float:
    """Seconds for the first of the drills that are still to be made."""
    left_s = plan.deadline_s - time.monotonic()
    weights = [_SECONDS_MIN[fault] for fault in faults]
    return max(left_s * weights[0] / sum(weights) - _START_SECONDS, weights[0])


def _record(session: Session, result: DrillResult, options: DrillOptions) -> None:
    """Keep a drill, which had a run file of its own, in the session's."""
    drill_id = store_drill(session.recorder, result, options)
    for cut in result.cuts:
        store_cut(session.recorder, drill_id, cut, ns=time.monotonic_ns())


def no_drills(candidates: Sequence[Candidate], why: str) -> Drilled:
    """All cells empty, for the same reason."""
    cells = {
        candidate.id: [not_drilled(fault, why) for fault in candidate.faults]
        for candidate in candidates
    }
    return Drilled(cells, {})
