"""Plans of the statements that functions and triggers execute, which EXPLAIN does not show.

The module auto_explain reports them to the session that executes them, as notices. Only superusers
may load it, as pgdyno is on a server that it started.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno.plans._session import LoadLikeSession, Refused
from pgdyno.plans.tree import Plan, read_plan

if TYPE_CHECKING:
    import psycopg

    from pgdyno._engine import SampledTransaction

REPORTING = {
    "client_min_messages": "notice",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_verbose": "on",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
    "auto_explain.sample_rate": "1",
}
"""Settings of a session in which the module reports all plans."""
REPORTS_MAX = 200
"""Plans that are read: a function may be called for each of many rows."""
_TEXT = "Query Text"


def nested_plans(
    session: LoadLikeSession, transactions: Sequence[SampledTransaction], ends_s: float
) -> list[Plan]:
    """Execute the transactions in a session with ``REPORTING``, and undo them, until about
    ``ends_s``; return the plans of the statements that are none of theirs, of each text the one
    that took longest. None where the module cannot be had. Raises psycopg.Error if the connection
    fails."""
    reports: list[str] = []

    def take(notice: psycopg.errors.Diagnostic) -> None:
        if len(reports) < REPORTS_MAX and notice.message_primary:
            reports.append(notice.message_primary)

    try:
        session.run("load 'auto_explain'")
    except Refused:
        return []
    session.connection.add_notice_handler(take)
    for transaction in transactions:
        if time.monotonic() < ends_s:
            session.execute(transaction)
    sent = {
        text.strip().rstrip(";")
        for each in transactions
        for statement in each["statements"]
        for text in (statement["text"], statement["parameterized"] or "")
    }
    found: dict[str, Plan] = {}
    for text, plan in filter(None, map(_reported, reports)):
        if text.strip().rstrip(";") not in sent:
            found[text] = max(found.get(text, plan), plan, key=lambda each: each.root.time_ms or 0)
    return [*found.values()]


def _reported(notice: str) -> tuple[str, Plan] | None:
    """Return the text and the plan of a report; None for another notice."""
    try:
        report = json.loads("{" + notice.partition("{")[2])
        return str(report[_TEXT]), read_plan(report)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None
