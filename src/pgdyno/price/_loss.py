"""What a crash takes under a candidate: a drill for each fault that shows its price."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgdyno.conduct import Session
from pgdyno.drill.fault import find_fault
from pgdyno.drill.model import DrillOptions, DrillResult
from pgdyno.drill.running import run_drill
from pgdyno.errors import Interrupted, PgdynoError
from pgdyno.price._cells import cells_of, not_drilled
from pgdyno.price.candidates import Candidate

_START_SECONDS = 5.0
"""Of a drill's share, what passes before it counts: a server, its tables."""


@dataclass(frozen=True)
class DrillPlan:
    """How many cuts, and until when."""

    cuts: int | None
    """Of each drill, at most; ``None``: as many as its fault usually has."""
    seed: int
    deadline_s: float
    """On the monotonic clock; no cut begins later."""


@dataclass
class Drilled:
    """What drills took. It grows drill by drill, so that what was seen outlives what ends them."""

    cells: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    """By candidate and fault, the cells of the price list."""
    drills: dict[tuple[str, str], DrillResult] = field(default_factory=dict)
    """By candidate and fault, those that have cuts."""

    def losses(self, candidate: Candidate, why: str) -> list[dict[str, Any]]:
        """The cells of a candidate; a drill that was not come to is "not drilled", and ``why``."""
        found = []
        for fault in candidate.assessment.faults:
            found += self.cells.get((candidate.id, fault)) or [not_drilled(fault, why)]
        return found

    def enter(self, candidate: Candidate, fault: str, result: DrillResult) -> None:
        """A drill that was made, with its cuts so far."""
        self.cells[candidate.id, fault] = cells_of(result)
        if result.cuts:
            self.drills[candidate.id, fault] = result

    def break_off(self, candidate: Candidate, fault: str, why: str) -> None:
        """The drill came to no end: the cuts that it has are kept, with the reason."""
        if (candidate.id, fault) in self.drills:
            self.cells[candidate.id, fault][-1]["broke_off"] = why
        else:
            self.cells[candidate.id, fault] = [not_drilled(fault, why)]


def drill_all(
    session: Session,
    candidates: Sequence[Candidate],
    plan: DrillPlan,
    drilled: Drilled,
    changed: Callable[[], object] = lambda: None,
) -> None:
    """Find out what each fault of each candidate takes, into ``drilled``; the session's own server
    rests meanwhile. ``changed`` is called whenever ``drilled`` has grown.

    What this machine or server cannot do is "not drilled" with the reason, and no error. Raises
    Interrupted.
    """
    asked = [(each, fault) for each in candidates for fault in each.assessment.faults]
    assert session.target.cluster is not None, "drills are for servers that pgdyno started"
    with session.server_down():
        for number, (candidate, fault) in enumerate(asked):
            session.watcher.phase(f"drill: {fault} under {candidate.title}")
            options = DrillOptions(
                fault=fault,
                cuts=find_fault(fault).cuts_usual if plan.cuts is None else plan.cuts,
                seed=plan.seed,
                budget_s=_share_s(plan, [each for _, each in asked[number:]]),
            )

            def keep(result: DrillResult, whose: Candidate = candidate) -> None:
                drilled.enter(whose, result.fault, result)
                changed()

            try:
                keep(
                    run_drill(
                        candidate.spec(session.spec),
                        options,
                        watcher=session.watcher,
                        run=session.recorder.for_drill(),
                        each_cut=keep,
                    )
                )
            except (PgdynoError, Interrupted) as problem:
                drilled.break_off(candidate, fault, _why(problem))
                if isinstance(problem, Interrupted) or session.recorder.failure is not None:
                    raise
                session.watcher.note(f"{candidate.title}, {fault}: {problem.message}")


def _why(problem: PgdynoError | Interrupted) -> str:
    return "interrupted" if isinstance(problem, Interrupted) else problem.message


def _share_s(plan: DrillPlan, faults: Sequence[str]) -> float:
    """Seconds for the first of the drills that are still to be made; enough for a cut or two,
    however late it is."""
    left_s = plan.deadline_s - time.monotonic()
    weights = [find_fault(fault).seconds_min for fault in faults]
    return max(left_s * weights[0] / sum(weights) - _START_SECONDS, weights[0])
