"""The measured price of the remedies that an investigation kept or offered."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pgdyno.conduct import Session
from pgdyno.errors import Interrupted
from pgdyno.price._loss import DrillPlan, LossTable, drill_all
from pgdyno.price.candidates import Candidate, of_change
from pgdyno.price.sentences import loss_words
from pgdyno.record import TrialDecision
from pgdyno.remedy import Circumstances, circumstances
from pgdyno.results import store
from pgdyno.results.investigate import InvestigateResult, RemedyPrice, TriedRemedy
from pgdyno.results.loss import Loss
from pgdyno.spec import Change

SECONDS_PER_REMEDY = 75.0
"""Time for each remedy that reduces durability, in addition to the investigation's budget."""


def price_remedies(
    session: Session, result: InvestigateResult, *, drill: bool
) -> InvestigateResult:
    """Return ``result`` with ``prices``, and record it: the losses in a crash under each remedy of
    class D1 and worse that the investigation kept or offered.

    The load has ended. Without ``drill``, or where drills are not possible, the price is "not
    drilled", with the reason. Takes SECONDS_PER_REMEDY for each.
    """
    server = circumstances(session.spec, session.target.facts["settings"])
    candidates = candidates_of(result, server)
    table, why = LossTable(), ""
    try:
        if not session.target.ours:
            why = "pgdyno did not start this server"
        elif session.spec.http is not None:
            why = "the load is requests, and the load of a drill is SQL"
        elif not drill:
            why = "drills were not requested"
        elif candidates:
            deadline_s = time.monotonic() + SECONDS_PER_REMEDY * len(candidates)
            plan = DrillPlan(None, session.spec.load.seed or 1, deadline_s)
            drill_all(session, candidates, plan, table)
    except Interrupted:
        why = "interrupted"
        raise
    finally:
        prices = tuple(_price(each, table.losses(each, why)) for each in candidates)
        result = result.model_copy(update={"prices": prices})
        store(session.recorder, result)
    return result


def candidates_of(result: InvestigateResult, server: Circumstances) -> list[Candidate]:
    """Return the changes to price, each once, on top of all that was kept."""
    kept = Change.from_json(result.kept)
    by_id: dict[str, Candidate] = {}
    for remedy in _remedies(result):
        change = Change.from_json(remedy.change)
        candidate = of_change(change, server, base=kept, title=remedy.title)
        by_id[candidate.id] = candidate
    return list(by_id.values())


def _remedies(result: InvestigateResult) -> Iterator[TriedRemedy]:
    for step in result.steps:
        if TrialDecision(step.decision).gains and step.remedy.durability_class != "D0":
            yield step.remedy


def _price(candidate: Candidate, losses: tuple[Loss, ...]) -> RemedyPrice:
    return RemedyPrice(
        title=candidate.title,
        remedy=candidate.remedy,
        durability_class=candidate.assessment.durability_class,
        change=candidate.change.to_json(),
        bound=candidate.assessment.bound,
        losses=losses,
        sentence="; ".join(loss_words(losses)),
    )
