"""The losses of each candidate in a crash: a drill for each fault that shows its price, and of each
drill one cell for each variant that has its own price."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.conduct import Session
from pgdyno.drill.fault import find_fault
from pgdyno.drill.model import DrillOptions, by_variant, summarise
from pgdyno.drill.running import run_drill
from pgdyno.errors import Interrupted, PgdynoError
from pgdyno.price.candidates import Candidate
from pgdyno.record.cut import Cut
from pgdyno.results.drill import Drill
from pgdyno.results.loss import Drilled, Loss, NotDrilled

_START_SECONDS = 5.0
"""The part of a drill's time that passes before its first cut: starting a server, its tables."""


class DrillPlan(Struct, frozen=True):
    """Number of cuts, and the deadline."""

    cuts: int | None
    """Maximum for each drill; ``None``: the usual number of its fault."""
    seed: int
    deadline_s: float
    """On the monotonic clock; no cut begins later, but for the first of a drill."""
    ends: bool = False
    """True if no drill begins later either."""


@dataclass
class LossTable:
    """The losses in the drills so far. An error keeps the measurements before it."""

    cells: dict[tuple[str, str], list[Loss]] = field(default_factory=dict)
    """Cells of the price list, by candidate and fault."""
    drills: dict[tuple[str, str], Drill] = field(default_factory=dict)
    """Drills with at least one cut, by candidate and fault."""

    def losses(self, candidate: Candidate, why: str) -> tuple[Loss, ...]:
        """Return the cells of a candidate; ``why`` is the reason for drills not begun."""
        found: list[Loss] = []
        for fault in candidate.assessment.faults:
            found += self.cells.get((candidate.id, fault)) or [not_drilled(fault, why)]
        return tuple(found)

    def enter(self, candidate: Candidate, fault: str, result: Drill) -> None:
        """Enter a drill with its cuts so far."""
        self.cells[candidate.id, fault] = cells_of(result)
        if result.cuts:
            self.drills[candidate.id, fault] = result

    def break_off(self, candidate: Candidate, fault: str, why: str) -> None:
        """Enter the reason why a drill ended early; its cuts are kept."""
        cells = self.cells.get((candidate.id, fault), [])
        match cells:
            case [*_, Drilled() as last]:
                cells[-1] = last.model_copy(update={"broke_off": why})
            case _:
                self.cells[candidate.id, fault] = [not_drilled(fault, why)]


def drill_all(
    session: Session,
    candidates: Sequence[Candidate],
    plan: DrillPlan,
    table: LossTable,
    on_growth: Callable[[], object] = lambda: None,
) -> None:
    """Drill each fault of each candidate and enter the losses into ``table``.

    The session's own server is down meanwhile. ``on_growth`` is called whenever ``table`` has
    grown. A drill that this machine or server cannot do is entered as not drilled, with the reason.
    Raises Interrupted.
    """
    due = [(each, fault) for each in candidates for fault in each.assessment.faults]
    assert session.target.cluster is not None, "drills are for servers that pgdyno started"
    with session.server_down():
        for number, (candidate, fault) in enumerate(due):
            if plan.ends and time.monotonic() > plan.deadline_s:
                table.break_off(candidate, fault, "the budget was over")
                on_growth()
                continue
            session.watcher.phase(f"drill: {fault} under {candidate.title}")
            options = DrillOptions(
                fault=fault,
                cuts=find_fault(fault).cuts_usual if plan.cuts is None else plan.cuts,
                seed=plan.seed,
                budget_s=_share_s(plan, [each for _, each in due[number:]]),
            )
            _drill(session, candidate, options, table, on_growth)


def _drill(
    session: Session,
    candidate: Candidate,
    options: DrillOptions,
    table: LossTable,
    on_growth: Callable[[], object],
) -> None:
    fault = options.fault

    def keep(result: Drill) -> None:
        table.enter(candidate, fault, result)
        on_growth()

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
        table.break_off(candidate, fault, reason(problem))
        if isinstance(problem, Interrupted) or session.recorder.failure is not None:
            raise
        session.watcher.note(f"{candidate.title}, {fault}: {problem.message}")


def reason(problem: PgdynoError | Interrupted) -> str:
    """Return the reason for an early end, in words."""
    return "interrupted" if isinstance(problem, Interrupted) else problem.message


def _share_s(plan: DrillPlan, faults: Sequence[str]) -> float:
    """Return the seconds for the first of the remaining drills: at least enough for a cut or two,
    also after the deadline unless that ends them."""
    left_s = plan.deadline_s - time.monotonic()
    weights = [find_fault(fault).seconds_min for fault in faults]
    share_s = max(left_s * weights[0] / sum(weights) - _START_SECONDS, weights[0])
    return min(share_s, left_s) if plan.ends else share_s


def not_drilled(fault: str, why: str) -> NotDrilled:
    """Return the cell of a drill that was not made."""
    return NotDrilled(fault=fault, variant="", drilled=False, why=why)


def cells_of(result: Drill) -> list[Loss]:
    """Return the cells of a drill: one for each variant if variants have their own prices."""
    if not result.cuts:
        return [not_drilled(result.fault, "the time was over before its first cut")]
    pooled = find_fault(result.fault).pooled
    worse = {cut.number for cut in result.worse_than_bound()}
    return [
        _cell(result, variant, cuts, worse=sum(cut.number in worse for cut in cuts))
        for variant, cuts in by_variant(result.cuts, pooled=pooled).items()
    ]


def _cell(result: Drill, variant: str, cuts: Sequence[Cut], *, worse: int) -> Drilled:
    summary = summarise(cuts, result.summary.bound_ms)
    return Drilled(
        fault=result.fault,
        variant=variant,
        drilled=True,
        promised=all(cut.facts.get("promised", True) for cut in cuts),
        worse_than_bound=worse,
        **summary.model_dump(include={*Drilled.model_fields}),
    )
