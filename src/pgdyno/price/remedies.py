"""The measured price of what an investigation kept or offered: a few drills after its loop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgdyno.conduct import Session
from pgdyno.errors import Interrupted
from pgdyno.price._loss import Drilled, DrillPlan, drill_all
from pgdyno.price.candidates import Candidate, of_change
from pgdyno.price.sentences import loss_words
from pgdyno.remedy import Circumstances, circumstances
from pgdyno.results import store
from pgdyno.results.investigate import InvestigateResult, RemedyPrice, TriedRemedy
from pgdyno.spec import Change

SECONDS_PER_REMEDY = 75.0
"""Time beyond the investigation's own budget, for each remedy that gives durability up."""
_PRICED = ("kept", "still earns", "offered")


def price_remedies(
    session: Session, result: InvestigateResult, *, drill: bool
) -> InvestigateResult:
    """``result`` of an investigation with ``prices``: what a crash takes under each remedy of class
    D1 and worse that it kept or offered; also recorded.

    The load has ended. Without ``drill``, or where drills cannot be, the price is "not drilled" and
    why. Takes SECONDS_PER_REMEDY for each.
    """
    server = circumstances(session.spec, session.target.facts["settings"])
    candidates = candidates_of(result, server)
    drilled, why = Drilled(), ""
    try:
        if not session.target.ours:
            why = "pgdyno did not start this server"
        elif not drill:
            why = "drills were not wanted"
        elif candidates:
            deadline_s = time.monotonic() + SECONDS_PER_REMEDY * len(candidates)
            plan = DrillPlan(None, session.spec.load.seed or 1, deadline_s)
            drill_all(session, candidates, plan, drilled)
    except Interrupted:
        why = "interrupted"
        raise
    finally:
        prices = tuple(_row(c, drilled.losses(c, why)) for c in candidates)
        result = result.model_copy(update={"prices": prices})
        store(session.recorder, result)
    return result


def candidates_of(result: InvestigateResult, server: Circumstances) -> list[Candidate]:
    """What is to be priced, each change once, on top of all that was kept."""
    kept = Change.from_json(result.kept)
    by_id: dict[str, Candidate] = {}
    for remedy in _remedies(result):
        change = Change.from_json(remedy.change)
        candidate = of_change(change, server, base=kept, title=remedy.title)
        by_id[candidate.id] = candidate
    return list(by_id.values())


def _remedies(result: InvestigateResult) -> Iterator[TriedRemedy]:
    for step in result.steps:
        if step.decision in _PRICED and step.remedy.durability_class != "D0":
            yield step.remedy


def _row(candidate: Candidate, losses: Sequence[Mapping[str, Any]]) -> RemedyPrice:
    row: dict[str, Any] = {
        "title": candidate.title,
        "remedy": candidate.remedy,
        "durability_class": candidate.assessment.durability_class,
        "change": candidate.change.to_json(),
        "bound": candidate.assessment.bound,
        "losses": losses,
    }
    return RemedyPrice(**row, sentence="; ".join(loss_words(row)))
