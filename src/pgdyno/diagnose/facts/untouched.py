"""Statements that were to change or delete rows and never found one: the load does less than its
script says."""

from __future__ import annotations

from collections.abc import Iterable

from pgdyno.record import StatementTotal

EXECUTIONS_MIN = 10
"""Fewer may have found nothing by chance."""


def never_touched(totals: Iterable[StatementTotal]) -> list[StatementTotal]:
    """Return the statements of which every execution changed no row."""
    return [each for each in totals if each.done >= EXECUTIONS_MIN and each.untouched == each.done]
