"""Statements whose plan has another form on one of two sides: of two runs, or of the slices of one.

A statement is the same on both sides if its text is. Each side has the plan that was looked at last
(see ``pgdyno.plans``), for values that its own load has sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from pgdyno.plans.forms import both_in_one_line, fingerprint
from pgdyno.plans.tree import Plan, read_plan
from pgdyno.record import RunFile, StatementPlan, StatementTotal
from pgdyno.results.plans import ComparedPlans, PlanForm, PlanPair

_Key = tuple[str, str, str, int]
"""Client group, script, text, and number among the statements of the script with this text."""


class PlannedSide(Struct, frozen=True):
    """Slices of a run, whose plans are one side; None for all."""

    run: RunFile
    slice_ids: Sequence[int] | None


class _Statement(Struct, frozen=True):
    total: StatementTotal
    looked: StatementPlan
    plan: Plan | None

    @property
    def fingerprint(self) -> str:
        assert self.plan is not None
        return fingerprint(self.plan)

    def form(self, nodes: str) -> PlanForm:
        service = self.total.service
        return PlanForm(
            nodes=nodes,
            is_generic=self.looked.is_generic,
            mean_ms=round(service.mean / 1e6, 4) if service.count else None,
        )


def compared_plans(a: PlannedSide, b: PlannedSide) -> ComparedPlans | None:
    """Return the statements that both sides have and whose plan differs, those first that take
    most time; None if the plans of one side were not looked at."""
    sides = _statements(a), _statements(b)
    if not all(sides):
        return None
    both = [*_in_both(*sides)]
    planned = [pair for pair in both if all(each.plan for each in pair)]
    differing = [(one, other) for one, other in planned if one.fingerprint != other.fingerprint]
    differing.sort(key=lambda pair: -max(each.total.spent_ns for each in pair))
    return ComparedPlans(
        statements=len(planned),
        without_plan=len(both) - len(planned),
        differing=tuple(_pair(*each) for each in differing),
    )


def was_looked_at(side: PlannedSide) -> bool:
    """Return whether plans of a side were looked at."""
    return bool(side.run.statement_plans(side.slice_ids))


def _statements(side: PlannedSide) -> dict[_Key, _Statement]:
    """Return the statements that were looked at."""
    latest = {row.place: row for row in side.run.statement_plans(side.slice_ids)}
    found: dict[_Key, _Statement] = {}
    for total in side.run.statements(side.slice_ids):
        row = latest.get(total.place)
        if row is not None:
            plan = None if row.plan is None else read_plan(json.loads(row.plan))
            text = (total.client_group, total.script, " ".join(total.statement.split()))
            number = sum(key[:3] == text for key in found)
            found[*text, number] = _Statement(total, row, plan)
    return found


def _in_both(
    a: Mapping[_Key, _Statement], b: Mapping[_Key, _Statement]
) -> Iterator[tuple[_Statement, _Statement]]:
    """Yield the statements of both: of the same group and script, else those with a text that no
    other one has, as scripts may have been renamed."""
    alone_a, alone_b = _alone(a), _alone(b)
    for key, one in a.items():
        other = b.get(key)
        if other is None and alone_a.get(key[2]) is one:
            other = alone_b.get(key[2])
        if other is not None:
            yield one, other


def _alone(statements: Mapping[_Key, _Statement]) -> dict[str, _Statement]:
    """Return the statements with a text of their own, by that text."""
    texts = [key[2] for key in statements]
    return {key[2]: each for key, each in statements.items() if texts.count(key[2]) == 1}


def _pair(a: _Statement, b: _Statement) -> PlanPair:
    assert a.plan is not None
    assert b.plan is not None
    of_a, of_b = both_in_one_line(a.plan, b.plan)
    return PlanPair(
        group=a.total.client_group,
        script=a.total.script,
        statement=a.total.statement,
        a=a.form(of_a),
        b=b.form(of_b),
    )
