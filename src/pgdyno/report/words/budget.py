"""The latency budget in words: the largest parts of the response time, and of each statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.words import prose
from pgdyno.report.words.findings import finding_name
from pgdyno.report.words.prose import cut
from pgdyno.report.words.tables import Table

if TYPE_CHECKING:
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.budget import BudgetPart, LatencyBudget, StatementBudget

SHARE_MIN = 0.02
"""Smaller parts are summed as "other"."""
PARTS_MAX = 6
STATEMENTS_MAX = 3
STATEMENT_SHARE_MIN = 0.1
EVENTS_MAX = 2
_STATEMENT_WIDTH = 44


def budget_in(summary: RunSummary) -> LatencyBudget | None:
    """Return the recorded latency budget; None if there is none."""
    found: LatencyBudget | None = summary.part("latency_budget")
    return found


def shown_parts(budget: LatencyBudget) -> list[BudgetPart]:
    """Return the parts that are shown by themselves, the largest first."""
    return [part for part in budget.parts if part.share >= SHARE_MIN][:PARTS_MAX]


def rest_ms(budget: LatencyBudget) -> float:
    """Return the time of the parts that are not shown by themselves."""
    return max(0.0, budget.response_ms - sum(part.ms for part in shown_parts(budget)))


def budget_words(budget: LatencyBudget) -> str:
    """Return the parts in one line, the largest first, with the names of wait events."""
    parts = [_part_words(part) for part in shown_parts(budget)]
    rest = rest_ms(budget) / budget.response_ms if budget.response_ms else 0.0
    if rest >= SHARE_MIN:
        parts.append(f"{numbers.percent(rest)} other")
    return f"{numbers.ms(budget.response_ms)}: {', '.join(parts)}"


def _part_words(part: BudgetPart) -> str:
    events = ", ".join(event.event for event in part.wait_events[:EVENTS_MAX])
    notes = "; ".join(filter(None, (events, "unexplained" if _is_unexplained(part) else "")))
    return f"{numbers.percent(part.share)} {part.words}{f' ({notes})' if notes else ''}"


def _is_unexplained(part: BudgetPart) -> bool:
    return part.status == "unexplained"


def statement_words(budget: LatencyBudget) -> list[str]:
    """Return the statements that take the most of the response time, each with its parts."""
    largest = [each for each in budget.statements if each.share >= STATEMENT_SHARE_MIN]
    if len(budget.statements) < 2:
        return []
    return [_statement_words(each) for each in largest[:STATEMENTS_MAX]]


def _statement_words(each: StatementBudget) -> str:
    parts = [
        f"{numbers.percent(part.ms / each.ms)} {part.words}"
        for part in each.parts[:EVENTS_MAX]
        if each.ms and part.ms >= SHARE_MIN * each.ms
    ]
    share = numbers.percent(each.share)
    return f"{share} {short_statement(each.statement)}, {numbers.ms(each.ms)}: {', '.join(parts)}"


def short_statement(statement: str) -> str:
    """Return a statement in one line, cut off if it is long."""
    return cut(statement, _STATEMENT_WIDTH)


def tables(budget: LatencyBudget) -> list[Table]:
    """Return the tables of the page."""
    found = (budget_table(budget), statements_table(budget))
    return [table for table in found if table]


def budget_table(budget: LatencyBudget) -> Table:
    """Return a row for each part of the response time."""
    rows = [
        [
            prose.capital(part.words),
            numbers.ms(part.ms),
            numbers.percent(part.share),
            ", ".join(event.event for event in part.wait_events),
            _named_by(part),
        ]
        for part in budget.parts
    ]
    head = ["Part", "mean", "share", "Wait events", "Named by"]
    caption = f"Parts of the mean response time of {numbers.ms(budget.response_ms)}"
    return Table(caption, head, rows, right=frozenset((1, 2)))


def _named_by(part: BudgetPart) -> str:
    names = numbers.listed([finding_name(finding) for finding in part.findings], most=None)
    match part.status:
        case "explained":
            return names
        case "cleared":
            return f"small; checked by {names}"
        case "behind others":
            return "as long as those ahead take"
        case _:
            return part.status


def statements_table(budget: LatencyBudget) -> Table | None:
    """Return a row for each statement with its mean time and its largest parts."""
    if not budget.statements:
        return None
    several = len({(each.group, each.script) for each in budget.statements}) > 1
    rows = [
        [
            *([f"{each.group}, {each.script}"] if several else []),
            " ".join(each.statement.split()),
            numbers.percent(each.share),
            numbers.ms(each.ms),
            "; ".join(_statement_parts(each)),
        ]
        for each in budget.statements
    ]
    head = [*(["Script"] if several else []), "Statement", "share", "mean", "of this"]
    right = frozenset((2, 3)) if several else frozenset((1, 2))
    return Table("Parts of the mean time of each statement", head, rows, right=right)


def _statement_parts(each: StatementBudget) -> Sequence[str]:
    return [
        f"{numbers.ms(part.ms)} {part.words}"
        + (f" ({', '.join(part.wait_events[:EVENTS_MAX])})" if part.wait_events else "")
        for part in each.parts
        if each.ms and part.ms >= SHARE_MIN * each.ms
    ]


def note(budget: LatencyBudget) -> str:
    """Return the data that this budget lacks, such as enough samples; '' if it lacks none."""
    return "; ".join(budget.missing[:-1])


def missing_sentence(budget: LatencyBudget) -> str:
    """Return the data that the budget lacks, as a sentence."""
    return prose.sentence("; ".join(budget.missing))
