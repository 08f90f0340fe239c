"""The plans of the load's statements as tables: a row for each node, and where its time goes; and
the statements whose plan differs between two sides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.plans.tree import Node, Plan, read_plan
from pgdyno.report.view import OnPage, Section, Text
from pgdyno.report.words import prose
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from pgdyno.record import CalledFunction, FunctionStatement, RunFile, StatementPlan
    from pgdyno.results.plans import ComparedPlans, PlanForm

TEXT_MAX = 160
FORM_MAX = 400
REPLANNED_MAX = 8
PLANS_MAX = 12
WITHIN_MAX = 5
NODES_MAX = 60
_HEAD = ("node", "time", "share", "rows", "expected", "details")
_HEAD_UNEXECUTED = ("node", "cost", "share", "rows expected", "details")


def replanned_words(compared: ComparedPlans | None) -> str:
    """Return how many statements have a plan of another form on the other side."""
    if compared is None:
        return "the plans of the statements were not looked at on both sides"
    lacking = numbers.counted(compared.without_plan, "statement", "statements")
    without = f"; {lacking} without a plan on a side" if compared.without_plan else ""
    whole = numbers.counted(compared.statements, "statement", "statements")
    if not compared.statements:
        return f"no statement has a plan on both sides{without}"
    if not compared.differing:
        return f"of the same form on both sides: {whole}{without}"
    count = len(compared.differing)
    return f"of another form on the other side: {count} of {whole}{without}"


def replanned_table(compared: ComparedPlans | None, a: str, b: str) -> Table | None:
    """Return the statements whose plan differs, with the forms and the times of both sides, which
    are named ``a`` and ``b``; None if there are none."""
    if compared is None or not compared.differing:
        return None
    rows = [
        [
            prose.cut(pair.statement, TEXT_MAX),
            _told(pair.a),
            _told(pair.b),
        ]
        for pair in compared.differing
    ]
    return Table("Statements whose plan differs", ["statement", a, b], rows, wide=True)


def replanned_terms(compared: ComparedPlans | None, a: str, b: str) -> Iterator[tuple[str, str]]:
    """Yield labels and texts for the terminal: how many plans differ, and for each its statement
    and both forms."""
    yield "plans", replanned_words(compared)
    for pair in compared.differing[:REPLANNED_MAX] if compared is not None else ():
        yield "", prose.cut(pair.statement, TEXT_MAX // 2)
        yield f"  {a}", _told(pair.a)
        yield f"  {b}", _told(pair.b)


def _told(form: PlanForm) -> str:
    """Return the mean time under load, the nodes, and whether the plan is for any values."""
    words = f"{numbers.ms(form.mean_ms)}: {prose.cut(form.nodes, FORM_MAX)}"
    return f"{words}, for any values" if form.is_generic else words


def sections(run: RunFile) -> list[Section]:
    """Return the section of the plans, each as it was looked at last; none if there are none."""
    latest = {row.place: row for row in run.statement_plans()}
    if not latest:
        return []
    texts = {each.place: each.statement for each in run.statements()}
    functions = {(each.place, each.function): each for each in run.called_functions()}
    executed = {(each.place, each.statement): each for each in run.function_statements()}
    parts: list[Text | Table] = []
    for row in [*latest.values()][:PLANS_MAX]:
        title = texts.get(row.place, f"{row.script}, statement {row.position + 1}")
        called = [each for each in functions.values() if each.place == row.place]
        within = [each for each in executed.values() if each.place == row.place]
        parts.extend(_parts(row, title, called, within))
    return [Section("plans", "Plans", [OnPage(part) for part in parts])]


def _parts(
    row: StatementPlan,
    statement: str,
    functions: Sequence[CalledFunction],
    within: Sequence[FunctionStatement],
) -> Iterator[Text | Table]:
    title = prose.cut(" ".join(statement.split()), TEXT_MAX)
    if row.plan is None:
        yield Text(f"{title}: no plan, {row.lack}", small=True)
        return
    plan = read_plan(json.loads(row.plan))
    yield _table(title, plan)
    longest = sorted(within, key=lambda each: -each.ms)[:WITHIN_MAX]
    clauses = [*_about(plan, row), *map(_called, functions), *map(_within, longest)]
    yield Text(prose.sentence("; ".join(clauses)), small=True)


def _called(function: CalledFunction) -> str:
    calls = numbers.count(function.calls)
    return f"function {function.function}: {numbers.ms(function.ms)} in {calls} calls"


def _within(executed: FunctionStatement) -> str:
    text = prose.cut(" ".join(executed.statement.split()), FORM_MAX)
    times = numbers.count(executed.executions)
    return f"within functions: {text}, {numbers.ms(executed.ms)} in {times} executions"


def _about(plan: Plan, row: StatementPlan) -> Iterator[str]:
    """Yield clauses on a plan as a whole."""
    if plan.execution_ms is None:
        yield "not executed, with estimates alone" + (f": {row.lack}" if row.lack else "")
    else:
        yield f"executed and undone in {numbers.ms(plan.execution_ms)}"
    if plan.planning_ms is not None:
        yield f"planned in {numbers.ms(plan.planning_ms)}"
    if row.is_generic is not None:
        kind = "a plan for any values" if row.is_generic else "a plan for these values"
        yield f"{kind} of a prepared statement"
    if plan.compiling_ms:
        yield f"compiled (JIT) in {numbers.ms(plan.compiling_ms)}"
    for trigger in plan.triggers:
        name = trigger.constraint or trigger.name
        calls = numbers.count(trigger.calls)
        yield f"trigger {name}: {numbers.ms(trigger.time_ms)} in {calls} calls"
    if plan.settings:
        yield "with " + ", ".join(f"{name} = {value}" for name, value in plan.settings.items())


def _table(title: str, plan: Plan) -> Table:
    """Return the nodes of a plan, each below the one that takes its rows."""
    is_executed = plan.root.time_ms is not None
    rows = [
        _executed(node, depth, plan) if is_executed else _estimated(node, depth, plan)
        for node, depth in _nodes(plan.root, 0)
    ]
    head = _HEAD if is_executed else _HEAD_UNEXECUTED
    figures = frozenset(range(1, len(head) - 1))
    return Table(title, head, rows[:NODES_MAX], right=figures, wide=True)


def _nodes(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
    yield node, depth
    for child in node.children:
        yield from _nodes(child, depth + 1)


def _executed(node: Node, depth: int, plan: Plan) -> Sequence[str]:
    own_ms = node.own_ms or 0.0
    whole_ms = plan.root.time_ms or 0.0
    share = numbers.percent(own_ms / whole_ms) if whole_ms else ""
    if not node.loops:
        return (_name(node, depth), "", "", "never executed", "", _details(node))
    expected = numbers.count(node.rows_planned * node.loops)
    return (
        _name(node, depth),
        numbers.ms(own_ms),
        share,
        numbers.count(node.rows or 0.0),
        expected,
        _details(node),
    )


def _estimated(node: Node, depth: int, plan: Plan) -> Sequence[str]:
    own = max(0.0, node.cost - sum(child.cost for child in node.children))
    share = numbers.percent(own / plan.root.cost) if plan.root.cost else ""
    return (
        _name(node, depth),
        numbers.count(own),
        share,
        numbers.count(node.rows_planned),
        _details(node),
    )


def _name(node: Node, depth: int) -> str:
    of = f" on {node.relation}" if node.relation else ""
    by = f" using {node.index}" if node.index else ""
    return "\N{NO-BREAK SPACE}" * 3 * depth + node.kind + by + of


def _details(node: Node) -> str:
    return "; ".join(_detail(node))


def _detail(node: Node) -> Iterator[str]:
    for name, condition in node.conditions.items():
        yield f"{name}: {prose.cut(condition, TEXT_MAX)}"
    if node.removed:
        yield f"{numbers.counted(node.removed, 'row', 'rows')} removed"
    if node.workers_planned:
        yield f"{node.workers_launched} of {node.workers_planned} workers"
    if node.spilled_kb:
        yield f"{numbers.size(node.spilled_kb * 1024)} on disk"
    if node.heap_fetches:
        yield f"{numbers.counted(node.heap_fetches, 'row', 'rows')} looked up in the table"
    if node.subplans_removed:
        yield f"{node.subplans_removed} partitions left out at the start"
