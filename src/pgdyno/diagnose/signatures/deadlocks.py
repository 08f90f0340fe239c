"""Deadlocks: sessions wait for each other, until PostgreSQL ends one of their transactions.

It looks for them only when a session has waited for deadlock_timeout, one second by default. All
that time the sessions of the cycle do nothing, nor do those that queue behind them; afterwards the
one that was ended does its work again.

Trigger: at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least
``WAITING_MIN`` on average, wait in a cycle or behind one.

Thresholds: as for hot rows, see ``_queues``; calibrated by injection, transactions that change two
of twenty rows in any order.
"""

from __future__ import annotations

from pgdyno.diagnose._lock_holders import holder_of
from pgdyno.diagnose._queues import Queues, cleared, evidence, matters, queues, quoted, summary
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import counted, figure
from pgdyno.record.finding import Evidence

SQLSTATE = "40P01"
DEFAULT_TIMEOUT_MS = 1000.0
"""deadlock_timeout where the run file, which leaves defaults out, has none."""


def examine(s: Situation) -> Found | Cleared:
    """Examine the sessions in and behind cycles."""
    found = queues(s, "deadlock")
    shown = [*evidence(s, found, "one in a deadlock"), *_counts(s)]
    what = "each other in a deadlock, or behind one"
    sentence = summary(s, found, what)
    if not matters(s, found):
        return Cleared(cleared(s, found, what), shown, parts=("row",))
    rows = f" over rows of {found.relation}" if found.relation else ""
    timeout_ms = s.settings.duration_ms("deadlock_timeout") or DEFAULT_TIMEOUT_MS
    return Found(
        sentence=(
            f"{sentence}{rows}; each lasts for {figure(timeout_ms)} ms (deadlock_timeout)"
            f"{_with_others(s, found)}"
        ),
        parts=found.parts,
        share=found.own_share,
        liftable=1.0,
        confidence=0.9,
        evidence=shown,
        advice=(
            "let all transactions change their rows in the same order, or lock them first in one"
            " statement with ORDER BY … FOR UPDATE; a lower deadlock_timeout ends each deadlock"
            " sooner"
        ),
    )


def _with_others(s: Situation, found: Queues) -> str:
    """Return the statement of a session in the deadlocks that is not of the load; '' if none is."""
    statement = holder_of(s, found).statement
    if statement is None:
        return ""
    return f"; in most of them is a session that is not of this load: {quoted(statement)}"


def _counts(s: Situation) -> list[Evidence]:
    """Return the deadlocks by the server's count, and the transactions that they ended."""
    errors = [error for error in s.run.errors(s.slice_ids) if error.sqlstate == SQLSTATE]
    ended = sum(error.count for error in errors)
    retried = sum(error.count for error in errors if error.retried)
    shown = [
        s.evidence(f"statements that failed with {SQLSTATE}", ended, "count"),
        s.evidence("of these retried", retried, "count"),
    ]
    counted_by_server = s.run.delta("metric_database", "deadlocks", s.slice_ids)
    if counted_by_server is not None:
        name = f"deadlocks in {counted(s.seconds, 'second', 'seconds')}"
        shown.insert(0, s.evidence(name, counted_by_server, "count"))
    return shown


SIGNATURE = Signature(
    id="deadlocks",
    false_positives="a benchmark that draws the rows of a transaction in no order",
    examine=examine,
)
