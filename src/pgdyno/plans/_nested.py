"""Statements that functions and triggers execute, which EXPLAIN does not show: their plans, and the
time that they take of the functions'.

The module auto_explain reports them to the session that executes them, as notices. Only superusers
may load it, or have it loaded when sessions of another role begin, as pgdyno may on a server that
it started.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from pgdyno.json_types import Row
from pgdyno.plans._session import LoadLikeSession, Refused
from pgdyno.plans.tree import Plan, read_plan
from pgdyno.record import CalledFunction, FunctionStatement, Place

if TYPE_CHECKING:
    import psycopg

    from pgdyno._engine import SampledTransaction

REPORTING = {
    "session_preload_libraries": "auto_explain",
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
"""Plans that are read of one execution: a function may be called for each of many rows."""
ROUNDS_MAX = 3
_TEXT = "Query Text"
_IS_LOADED = (
    "select exists (select from pg_catalog.pg_settings where name = 'auto_explain.log_level')"
)


class _Report(Struct, frozen=True):
    """A report of the module."""

    statement: str
    plan: Plan
    words: str
    """The whole of it, with the functions that it calls."""

    @property
    def ms(self) -> float:
        """Time of its execution."""
        return self.plan.root.time_ms or 0.0


class NestedStatements(Struct, frozen=True):
    """The statements within functions, as they were reported."""

    reports: dict[Place, dict[int, list[_Report]]] = field(default_factory=dict)
    """Statement of the load → number of a transaction → those of its shortest execution."""
    is_cut: set[Place] = field(default_factory=set)
    """Statements with more reports than were read."""

    def plans(self) -> list[Plan]:
        """Return the plan of each text that took longest."""
        found: dict[str, _Report] = {}
        for report in (r for runs in self.reports.values() for run in runs.values() for r in run):
            found[report.statement] = max(
                found.get(report.statement, report), report, key=lambda each: each.ms
            )
        return [each.plan for each in found.values()]

    def rows(self) -> Iterator[FunctionStatement]:
        """Yield a row for each statement that a statement of the load has functions execute, with
        means over its executions."""
        for place, runs in self.reports.items():
            texts: dict[str, list[float]] = {}
            for report in (report for run in runs.values() for report in run):
                texts.setdefault(report.statement, []).append(report.ms)
            for text, ms in texts.items():
                yield FunctionStatement(
                    *place, statement=text, executions=len(ms) / len(runs), ms=sum(ms) / len(runs)
                )

    def with_own(self, called: Sequence[CalledFunction]) -> list[CalledFunction]:
        """Return the functions with the time that each takes at most by itself, where the
        statements that they execute were reported."""
        by_place: dict[Place, list[CalledFunction]] = {}
        for each in called:
            by_place.setdefault(each.place, []).append(each)
        own_ms = {place: self._own_ms(place, mine) for place, mine in by_place.items()}
        return [
            each
            if (own := own_ms[each.place]) is None
            else replace(each, own_ms=min(each.self_ms, own))
            for each in called
        ]

    def _own_ms(self, place: Place, called: Sequence[CalledFunction]) -> float | None:
        """Return the time that the functions of a statement take together without the statements
        that they execute. A statement that calls one of them has the time of that one, and is left
        with the functions."""
        runs = self.reports.get(place)
        if not runs or place in self.is_cut:
            return None
        names = {each.function.partition("(")[0].rpartition(".")[2] for each in called}
        leaves = [r.ms for run in runs.values() for r in run if not _mentions(r.words, names)]
        return max(0.0, sum(each.self_ms for each in called) - sum(leaves) / len(runs))


def nested_statements(
    session: LoadLikeSession, transactions: Sequence[SampledTransaction], ends_s: float
) -> NestedStatements:
    """Execute the transactions in a session with ``REPORTING``, and undo them, until about
    ``ends_s``; return the statements that are none of theirs. None where the module cannot be had.
    Raises psycopg.Error if the connection fails."""
    heard: list[str] = []

    def take(notice: psycopg.errors.Diagnostic) -> None:
        if len(heard) <= REPORTS_MAX and notice.message_primary:
            heard.append(notice.message_primary)

    found = NestedStatements()
    if not _is_loaded(session):
        return found
    session.connection.add_notice_handler(take)
    numbered = [*enumerate(transactions)]
    for number, transaction in numbered * ROUNDS_MAX:
        if time.monotonic() > ends_s:
            break
        heard.clear()
        session.execute(transaction, after=partial(_take_in, found, number, transaction, heard))
    return found


def _is_loaded(session: LoadLikeSession) -> bool:
    """Return whether the session has the module, which is loaded if its role may do that."""
    row = session.connection.execute(_IS_LOADED).fetchone()
    if row is not None and row[0]:
        return True
    try:
        session.run("load 'auto_explain'")
    except Refused:
        return False
    return True


def _take_in(
    found: NestedStatements,
    number: int,
    transaction: SampledTransaction,
    heard: list[str],
    position: int,
    _: float,
) -> None:
    """Add the reports of one execution of a statement, which ended just now, if it is the shortest
    of this transaction."""
    place = (transaction["group"], transaction["script"], position)
    if len(heard) > REPORTS_MAX:
        found.is_cut.add(place)
    sent = _texts(transaction)
    reports = [each for each in map(_reported, heard) if each and each.statement not in sent]
    runs = found.reports.setdefault(place, {})
    if number not in runs or _ms_of(reports) < _ms_of(runs[number]):
        runs[number] = reports
    heard.clear()


def _ms_of(reports: Iterable[_Report]) -> float:
    return sum(each.ms for each in reports)


def _texts(transaction: SampledTransaction) -> Collection[str]:
    """Return the statements of a transaction, as they may be reported."""
    return {
        _bare(text)
        for statement in transaction["statements"]
        for text in (statement["text"], statement["parameterized"] or "")
    }


def _bare(text: str) -> str:
    return text.strip().rstrip(";")


def _mentions(words: str, names: Collection[str]) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", words) for name in names)


def _reported(notice: str) -> _Report | None:
    """Return the report of a notice; None for another notice."""
    words = "{" + notice.partition("{")[2]
    try:
        report: Row = json.loads(words)
        return _Report(_bare(str(report[_TEXT])), read_plan(report), words)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None
