"""The functions that the load's statements call, themselves or by triggers, with their times.

With ``track_functions`` the server counts each call of a function of users and extensions, in any
language but SQL where it is inlined; those built in are not counted. A session sees its own counts,
which it reports between transactions, so that the difference over a statement of a transaction is
what that statement called. Rolling back takes no counts back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.plans._session import LoadLikeSession, Refused
from pgdyno.plans._timing import in_server_ms
from pgdyno.plans.tree import Plan
from pgdyno.record import CalledFunction, CountedStatement, Place, TableTrigger
from pgdyno.server.sql_files import query_at

if TYPE_CHECKING:
    from pgdyno._engine import SampledTransaction
    from pgdyno.server.connecting.control import Control

COUNTING = {"track_functions": "all"}
ROUNDS_MAX = 5


class FunctionCounts(Struct, frozen=True):
    """Counts of a function, of a session since it last reported them or of a statement."""

    function: str
    is_trigger: bool
    calls: float
    ms: float
    self_ms: float

    def since(self, before: FunctionCounts | None) -> FunctionCounts:
        """Return what has come since ``before``."""
        if before is None:
            return self
        return FunctionCounts(
            self.function,
            self.is_trigger,
            self.calls - before.calls,
            self.ms - before.ms,
            self.self_ms - before.self_ms,
        )


class _Execution(Struct, frozen=True):
    ms: float
    called: Sequence[FunctionCounts]


def count_functions(
    session: LoadLikeSession, transactions: Sequence[SampledTransaction], ends_s: float
) -> tuple[list[CountedStatement], list[CalledFunction]]:
    """Execute the transactions in a session that counts (``COUNTING``), and undo them, until about
    ``ends_s``; return the mean times of the statements, and of the functions that they call.

    Of each transaction the shortest execution of a statement counts, except for the first one, in
    which functions are compiled. Raises psycopg.Error if the connection fails.
    """
    best: dict[tuple[Place, int], _Execution] = {}
    way_ms = session.way_ms()
    calls_any = False
    for number in range(ROUNDS_MAX):
        if number and not calls_any:
            break
        for which, transaction in enumerate(transactions):
            if best and time.monotonic() > ends_s:
                break
            way_ms = min(way_ms, session.way_ms())
            for position, execution in _counted(session, transaction).items():
                key = (transaction["group"], transaction["script"], position), which
                calls_any = calls_any or bool(execution.called)
                if number <= 1 or key not in best or execution.ms < best[key].ms:
                    best[key] = execution
    return _means(best, way_ms)


def _counted(session: LoadLikeSession, transaction: SampledTransaction) -> dict[int, _Execution]:
    """Execute a transaction; return what each of its statements called, by position."""
    found: dict[int, _Execution] = {}
    before: dict[str, FunctionCounts] = {}

    def after(position: int, ms: float) -> None:
        now = _counts(session)
        called = [each.since(before.get(key)) for key, each in now.items()]
        found[position] = _Execution(ms, [each for each in called if each.calls > 0])
        before.update(now)

    with session.undone():
        # Until it reports them, a session's counts are those of several transactions.
        before.update(_counts(session))
        session.execute(transaction, after=after)
    return found


def _counts(session: LoadLikeSession) -> dict[str, FunctionCounts]:
    """Return the counts of the session by function; none if the server does not give them."""
    try:
        result = session.run(query_at(session.connection, "plans", "called_functions").decode())[-1]
    except Refused:
        return {}
    rows = [
        [(result.get_value(row, column) or b"").decode(errors="replace") for column in range(6)]
        for row in range(result.ntuples)
    ]
    return {
        oid: FunctionCounts(name, is_trigger == "1", float(calls), float(ms), float(self_ms))
        for oid, name, is_trigger, calls, ms, self_ms in rows
    }


def _means(
    best: Mapping[tuple[Place, int], _Execution], way_ms: float
) -> tuple[list[CountedStatement], list[CalledFunction]]:
    """Return means over the transactions in which a statement was executed, of times in the
    server."""
    by_place: dict[Place, list[_Execution]] = {}
    for (place, _), execution in best.items():
        by_place.setdefault(place, []).append(execution)
    statements, functions = [], []
    for place, executions in sorted(by_place.items()):
        number = len(executions)
        mean_ms = sum(each.ms for each in executions) / number
        statements.append(CountedStatement(*place, in_server_ms(mean_ms, way_ms)))
        by_name: dict[str, list[FunctionCounts]] = {}
        for called in (each for execution in executions for each in execution.called):
            by_name.setdefault(called.function, []).append(called)
        functions += [
            CalledFunction(
                *place,
                function=name,
                is_trigger=counts[0].is_trigger,
                calls=sum(each.calls for each in counts) / number,
                ms=sum(each.ms for each in counts) / number,
                self_ms=sum(each.self_ms for each in counts) / number,
            )
            for name, counts in by_name.items()
        ]
    return statements, functions


def table_triggers(conn: Control, plans: Sequence[Plan]) -> Iterator[TableTrigger]:
    """Ask for the triggers of the tables that statements with these plans write."""
    written = {n.relation for plan in plans for n in plan.nodes() if n.kind == "ModifyTable"}
    if written:
        for row in conn.execute(query_at(conn, "plans", "table_triggers"), ([*written],)):
            yield TableTrigger(*row)
