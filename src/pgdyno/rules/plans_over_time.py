"""Plans that changed while the load ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.facts.plans import NOT_LOOKED_AT, was_looked_at
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted
from pgdyno.record import PlanOverTime, StatementTotal
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.sql_text import shortened

SHOWN = 3
FORM_MAX = 160
_ADVICE = (
    "see which plan is the better one, by the statement's times before and after; ANALYZE tables"
    " after they were filled, and let autovacuum analyze those that grow more often"
    " (autovacuum_analyze_scale_factor)"
)


@rule(
    "changed-plan",
    false_positives=(
        "a plan that became better as its tables grew; sessions that kept the first plan of a"
        " prepared statement"
    ),
)
def changed_plan(s: Situation) -> Found | Cleared:
    """Plans that changed while the load ran.

    The statements are explained when the load begins, before it is measured, and again when it has
    ended, for the same values. Trigger: a plan has another form, with other nodes, tables or
    indexes. Nothing is claimed of the response time: where the run has several slices, the
    statement's mean times in the first and in the last of them stand beside it.
    """
    if not was_looked_at(s):
        raise Skip(NOT_LOOKED_AT)
    known = s.run.plans_over_time(s.slice_ids)
    if not known:
        raise Skip("the plans were not looked at when the load began")
    changed = [each for each in known if each.is_changed]
    evidence = [
        s.evidence("statements explained at the start and at the end", len(known), "count"),
        s.evidence("of them with another plan at the end", len(changed), "count", "none"),
    ]
    if not changed:
        number = counted(len(known), "statement has", "statements have")
        return Cleared(f"{number} the plan that the load began with", evidence)
    totals = {each.place: each for each in s.statements}
    changed.sort(key=lambda each: -totals[each.place].spent_ns if each.place in totals else 0.0)
    worst = changed[0]
    return Found(
        sentence=(
            f"the plan of {counted(len(changed), 'statement', 'statements')} changed while the load"
            f" ran: first {shortened(worst.first, FORM_MAX)}, then"
            f" {shortened(worst.last, FORM_MAX)}{_text(totals.get(worst.place))}"
        ),
        share=0.0,
        severity="minor",
        confidence=0.9,
        evidence=[*evidence, *_times(s, changed[:SHOWN])],
        advice=_ADVICE,
    )


def _text(total: StatementTotal | None) -> str:
    return "" if total is None else f"; {shortened(total.statement)}"


def _times(s: Situation, plans: Sequence[PlanOverTime]) -> Iterator[Evidence]:
    """Yield the mean times of statements in the first and the last slice; nothing if there is one
    alone."""
    if len(s.slice_ids) < 2:
        return
    for name, slice_id in (("first", min(s.slice_ids)), ("last", max(s.slice_ids))):
        totals = {each.place: each for each in s.run.statements([slice_id])}
        for total in (totals.get(each.place) for each in plans):
            if total is not None and total.service.count:
                title = f"mean time in the {name} slice: {shortened(total.statement)}"
                yield s.evidence(title, total.service.mean / 1e6, "ms")
