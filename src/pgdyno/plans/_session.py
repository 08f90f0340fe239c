"""A session that executes transactions of the load as the load's sessions do, and undoes them.

It sends each statement by the load's protocol with values that the load has sent: prepared
statements are kept, so that a plan becomes generic where it does in the load. Each transaction is
rolled back. A statement that takes longer than ``STATEMENT_MS_MAX``, or waits for a lock, is
cancelled, and the rest of its transaction is left out.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Literal, TypeAlias

import psycopg
from psycopg import generators
from psycopg.pq import DiagnosticField, ExecStatus

from pgdyno.json_types import Row
from pgdyno.plans import LEAST_MS
from pgdyno.plans._joined import joined, queries_of
from pgdyno.plans.tree import JOINED, WITH_RULES, read_plan
from pgdyno.record import Place
from pgdyno.server import ConnInfo, connect_plain
from pgdyno.spec.change import begins_with

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from pgdyno._engine import SampledStatement, SampledTransaction
    from pgdyno.server.connecting.control import Control

STATEMENT_MS_MAX = 1000
LOCK_MS_MAX = 100
PATIENCE_S = 5.0
CUSTOM_PLANS = 5
"""Executions of a prepared statement that are planned with its values, before a generic plan is
considered (choose_custom_plan in plancache.c)."""
NOTHING_MS = {"prepared": LEAST_MS, "extended": 0.018, "simple": 0.015}
"""CPU time of the server for a statement that reads nothing, by each protocol: 11 to 14, 16 to 20
and 13 to 18 us for each of pgbench's on 15 and 18."""
PROTOCOL_MS_MAX = 0.05
"""The most by which one takes longer than an empty statement, in both programs: 0.02 to 0.04."""
_LIMITS = {"statement_timeout": str(STATEMENT_MS_MAX), "lock_timeout": str(LOCK_MS_MAX)}
_EXPLAINED = frozenset(("select", "insert", "update", "delete", "merge", "values", "with", "table"))
_CONTROL = frozenset(
    ("abort", "begin", "commit", "end", "prepare transaction", "rollback", "start transaction")
)
_BEGINNING = frozenset(("begin", "start transaction"))
_COMMITTING = frozenset(("commit", "end"))
_FIRE = "set constraints all immediate"
"""Executes the triggers and the checks of constraints that wait for COMMIT."""
_OUTSIDE = frozenset(
    (
        *("alter system", "call", "checkpoint", "cluster", "copy", "create database", "do"),
        *("discard", "drop database", "listen", "notify", "reindex", "unlisten", "vacuum"),
    )
)
"""Statements that cannot be in a transaction block, whose work it does not undo, or that wait for
rows of the client."""
_OF_SESSION = frozenset(("create temp table", "create temporary table", "reset", "set"))
"""Statements that change nothing beyond their session, without which others cannot be explained."""
_NOTHING: SampledStatement = {
    "position": 0,
    "text": "select 1",
    "parameterized": "select 1",
    "parameters": [],
    "captures": None,
}
_LARGE_BLOCK = "select pg_catalog.length(pg_catalog.repeat('x', 32000000))"
_SYNTAX_ERROR = "42601"
_PLACE = re.compile(r"\$(\d+)")


Executes: TypeAlias = Literal["nothing", "reads", "everything"]
"""The statements that are executed, and undone."""
Explained: TypeAlias = "tuple[Row | None, str]"
"""The answer of EXPLAIN (FORMAT JSON), for ``tree.read_plan``; or None, and the reason."""


class Refused(Exception):
    """A statement that this session does not execute, or that the server refused."""

    def __init__(self, why: str, sqlstate: str = "") -> None:
        if sqlstate == _SYNTAX_ERROR:
            # The load's own statement had none.
            why = f"{why}; of more than 10,000 values that \\rows makes up none is kept"
        super().__init__(why)


class LoadLikeSession:
    """A session with the settings and the protocol of the load's sessions."""

    def __init__(
        self,
        conninfo: ConnInfo,
        protocol: str,
        *,
        setup: str | None = None,
        settings: Mapping[str, str] | None = None,
        spared: Mapping[Place, str] | None = None,
        replaced: Mapping[tuple[str, str], Mapping[str, str]] | None = None,
    ) -> None:
        """Connect; ``setup`` is SQL that the load's sessions execute first, ``settings`` are set
        after it. Statements that are ``spared``, by client group, script and position, are
        explained and not executed; each has its reason. Variables that are ``replaced``, by client
        group and script, have other values than those sent. Raises SetupError or psycopg.Error."""
        self._protocol = protocol
        self._spared = {} if spared is None else spared
        self._replaced = {} if replaced is None else replaced
        self._prepared: dict[str, str] = {}
        self._prepared_with: dict[frozenset[tuple[str, str]], dict[str, str]] = {}
        self._names = count()
        self._depth = 0
        self._grown = False
        self._captured: dict[str, str | None] = {}
        self._connection = connect_plain(conninfo, patience_s=PATIENCE_S)
        if setup:
            self._connection.execute(setup.encode())
        self._set({**(settings or {}), **_LIMITS})
        self._defers = self._has_deferred_triggers()

    def _has_deferred_triggers(self) -> bool:
        row = self._connection.execute(
            "select exists (select from pg_catalog.pg_trigger where tginitdeferred)"
        ).fetchone()
        return row is not None and bool(row[0])

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    @property
    def connection(self) -> Control:
        """The connection itself."""
        return self._connection

    @contextmanager
    def changed(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Execute the block with other settings, and with plans that were made under them. Raises
        psycopg.Error where the server refuses one."""
        before = {name: self._setting(name) for name in settings}
        prepared = self._prepared
        try:
            self._set(settings)
            self._prepared = self._prepared_with.setdefault(frozenset(settings.items()), {})
            yield
        finally:
            self._prepared = prepared
            self._set(before)

    def _set(self, settings: Mapping[str, str]) -> None:
        """Change settings, and forget the plans that functions and the checks of foreign keys keep:
        the server keeps them whatever is set."""
        for name, value in settings.items():
            self._connection.execute("select pg_catalog.set_config(%s, %s, false)", (name, value))
        self._connection.execute("discard plans")

    def _setting(self, name: str) -> str:
        row = self._connection.execute("select pg_catalog.current_setting(%s)", (name,)).fetchone()
        assert row is not None
        return str(row[0])

    @contextmanager
    def undone(self, *, read_only: bool = False) -> Iterator[None]:
        """Undo the block: a transaction, or a part of one, that is rolled back at its end. In one
        that is ``read_only`` the server refuses changes."""
        depth = self._depth
        begin = "begin read only" if read_only else "begin"
        self.run(f"savepoint pgdyno_{depth}" if depth else begin)
        self._depth += 1
        try:
            yield
        finally:
            self._depth = depth
            self.run(f"rollback to savepoint pgdyno_{depth}" if depth else "rollback")

    def execute(
        self, transaction: SampledTransaction, *, after: Callable[[int, float], None] | None = None
    ) -> dict[int, float]:
        """Execute the statements of a transaction that are not spared, and undo them; return the
        milliseconds of each by its position, the last time of one that is repeated. COMMIT stands
        for the triggers that are deferred to it. ``after`` is called behind each, with both.
        Raises psycopg.Error, which is of the connection."""
        times_ms: dict[int, float] = {}
        with self.undone():
            for statement, commits in self._statements(transaction):
                if _place(transaction, statement) in self._spared:
                    continue
                try:
                    ms = self._executed_ms(statement, commits=commits)
                except Refused:
                    break
                times_ms[statement["position"]] = ms
                if after is not None:
                    after(statement["position"], ms)
        return times_ms

    def _executed_ms(self, statement: SampledStatement, *, commits: bool) -> float:
        """Execute a statement, and what is deferred to its end if it ``commits``; return its
        milliseconds. Raises Refused."""
        is_commit = begins_with(statement["text"], _COMMITTING)
        began = time.perf_counter()
        if not is_commit:
            self._run(statement)
        ms = 1000 * (time.perf_counter() - began)
        return ms + self._fired_ms(is_sent=is_commit) if commits and self._defers else ms

    def _fired_ms(self, *, is_sent: bool) -> float:
        """Execute what is deferred; return its milliseconds, without those of an empty statement
        unless one ``is_sent`` for it in the load."""
        began = time.perf_counter()
        self.run(_FIRE)
        fired = time.perf_counter()
        if is_sent:
            return 1000 * (fired - began)
        self.run("")
        return 1000 * max(0.0, fired - began - (time.perf_counter() - fired))

    def _statements(
        self, transaction: SampledTransaction
    ) -> Iterator[tuple[SampledStatement, bool]]:
        """Yield the statements of a transaction but those that begin or end one, each with whether
        it commits; and COMMIT, where something may be deferred to it. Rows that become variables
        are those of this execution, where the load's would be gone."""
        self._captured = {**self._replaced.get((transaction["group"], transaction["script"]), {})}
        is_block = False
        for statement in transaction["statements"]:
            texts = [each["text"] for each in queries_of(statement)]
            work = [each for each in texts if not begins_with(each, _CONTROL)]
            was_block, is_block = is_block, _is_block_after(texts, is_block)
            if work:
                yield statement if work == texts else joined(statement, work), not is_block
            elif self._defers and begins_with(texts[-1], _COMMITTING):
                yield statement, was_block

    def grow_memory(self) -> None:
        """Let the session keep its memory between statements, as one does that has executed many.

        The C library returns freed memory to the system at once until the session has freed a large
        block (M_TRIM_THRESHOLD in mallopt(3), 32 MB at most). Over 400 partitions a kept plan took
        5 ms in the first dozen to forty executions of a session for that, and 1.1 ms afterwards.
        """
        if not self._grown:
            self.run(_LARGE_BLOCK)
            self._grown = True

    @property
    def keeps_plans(self) -> bool:
        """True if it prepares statements."""
        return self._protocol == "prepared"

    def way_ms(self) -> float:
        """Return the milliseconds that a statement takes without the server's: those of one that
        reads nothing, by the load's protocol, less ``NOTHING_MS``. As settings may make any
        statement long, it is at most that of an empty one and ``PROTOCOL_MS_MAX``."""
        began = time.perf_counter()
        self.run("")
        answered = time.perf_counter()
        self._send_as(_NOTHING, "")
        empty_ms, nothing_ms = 1000 * (answered - began), 1000 * (time.perf_counter() - answered)
        return min(nothing_ms, empty_ms + PROTOCOL_MS_MAX) - NOTHING_MS[self._protocol]

    def explain(
        self, transaction: SampledTransaction, *, executes: Executes = "nothing"
    ) -> dict[int, Explained]:
        """Explain the statements of a transaction in their order; return the plans by position.

        Those that it ``executes`` are undone. Otherwise none is executed but those that make
        temporary tables or settings, as what follows may need them.
        """
        found: dict[int, Explained] = {}
        with self.undone(read_only=executes == "reads"):
            fires = self._defers and executes == "everything"
            if fires:
                self.run(_FIRE)  # EXPLAIN tells of triggers that fire in the statement.
            for statement, _ in self._statements(transaction):
                if begins_with(statement["text"], _COMMITTING):
                    continue
                why_not = self._spared.get(_place(transaction, statement))
                if why_not is not None and executes != "nothing":
                    found[statement["position"]] = None, why_not
                    continue
                self.run("savepoint pgdyno")
                found[statement["position"]] = self._explained_or_why(
                    statement, executes, may_defer=fires
                )
        return found

    def _explained_or_why(
        self, statement: SampledStatement, executes: Executes, *, may_defer: bool
    ) -> Explained:
        """Explain a statement behind a savepoint; where it is refused, return the reason. One that
        ``may_defer`` constraints is tried again so, as its place may need that."""
        try:
            return self._explained(statement, executes)
        except Refused as why:
            self.run("rollback to savepoint pgdyno")
            if not may_defer:
                return None, str(why)
        self.run("set constraints all deferred")
        return self._explained_or_why(statement, executes, may_defer=False)

    def run(self, sql: str) -> Sequence[PGresult]:
        """Execute SQL without parameters; return its results. Raises Refused."""
        query = self._encoded(sql)
        return self._sent(lambda: self._connection.pgconn.send_query(query))

    def _explained(self, statement: SampledStatement, executes: Executes) -> Explained:
        """Explain the queries of a statement in turn, or execute those that have no plan. Raises
        Refused."""
        analyze, answers = executes != "nothing", []
        for query in queries_of(statement):
            if begins_with(query["text"], _EXPLAINED):
                answers.append(self._explain(query, analyze))
            elif executes == "everything" or begins_with(query["text"], _OF_SESSION):
                self._run(query)
        if not answers:
            return None, "only queries and changes of rows have a plan"
        if statement["captures"] is not None and analyze:
            # What follows needs the row, which EXPLAIN does not give.
            self.run("rollback to savepoint pgdyno")
            self._run(statement)
        return _as_one(answers, JOINED), ""

    def _explain(self, statement: SampledStatement, analyze: bool) -> Row:
        options = "analyze, buffers, wal, settings" if analyze else "settings"
        head = f"explain ({options}, verbose, summary, format json) "
        value = self._send_as(statement, head)[-1].get_value(0, 0) or b""
        return readable(value.decode(self._connection.info.encoding, errors="replace"))

    def _run(self, statement: SampledStatement) -> None:
        if any(begins_with(each["text"], _OUTSIDE) for each in queries_of(statement)):
            raise Refused("it cannot be undone in a transaction")
        result = self._send_as(statement, "")[-1]
        if begins_with(statement["text"], _OF_SESSION):
            # Scripts set limits of their own, which may be none.
            self.run("".join(f"set local {name} = {value};" for name, value in _LIMITS.items()))
        prefix = statement["captures"]
        if prefix is not None and result.ntuples:
            for column in range(result.nfields):
                name = prefix + (result.fname(column) or b"").decode(errors="replace")
                value = result.get_value(result.ntuples - 1, column)
                self._captured[name] = None if value is None else value.decode(errors="replace")

    def _values(self, statement: SampledStatement) -> list[str | None]:
        """Return the values of the parameters; of captured variables those of this execution."""
        return [self._captured.get(name, value) for name, value in statement["parameters"]]

    def _send_as(self, statement: SampledStatement, head: str) -> Sequence[PGresult]:
        """Send a statement by the load's protocol, behind ``head``; return its results."""
        pgconn = self._connection.pgconn
        text, values = statement["parameterized"], self._values(statement)
        if text is None or (self._protocol == "simple" and not self._captured):
            return self.run(head + statement["text"])
        if self._protocol == "simple":
            return self.run(head + self._with_literals(text, values))
        encoded = [None if each is None else self._encoded(each) for each in values]
        if self._protocol == "extended":
            query = self._encoded(head + text)
            return self._sent(lambda: pgconn.send_query_params(query, encoded))
        name = self._name(text)
        if not head:
            return self._sent(lambda: pgconn.send_query_prepared(name.encode(), encoded))
        given = ", ".join(map(self._literal, values))
        return self.run(f"{head}execute {name}{f'({given})' if given else ''}")

    def _with_literals(self, text: str, values: Sequence[str | None]) -> str:
        """Return a text with values in place of its parameters."""
        return _PLACE.sub(lambda found: self._literal(values[int(found[1]) - 1]), text)

    def _name(self, text: str) -> str:
        """Prepare a statement, unless it is, and return its name."""
        if text not in self._prepared:
            name = f"pgdyno_{next(self._names)}"
            query = self._encoded(text)
            self._sent(lambda: self._connection.pgconn.send_prepare(name.encode(), query))
            self._prepared[text] = name
        return self._prepared[text]

    def _encoded(self, text: str) -> bytes:
        """Return a text in the session's encoding; raise Refused if that lacks a character."""
        try:
            return text.encode(self._connection.info.encoding)
        except UnicodeEncodeError as problem:
            raise Refused(
                f"the session's encoding lacks characters of it: {problem.reason}"
            ) from None

    def _literal(self, value: str | None) -> str:
        from psycopg import sql

        return "null" if value is None else sql.Literal(value).as_string(self._connection)

    def is_generic(self, statement: SampledStatement) -> bool | None:
        """Return whether a prepared statement has been executed with a plan for any values; None if
        it is not prepared."""
        name = self._prepared.get(statement["parameterized"] or "")
        if name is None:
            return None
        row = self._connection.execute(
            "select generic_plans from pg_catalog.pg_prepared_statements"
            " where name operator(pg_catalog.=) %s",
            (name,),
        ).fetchone()
        return None if row is None else bool(row[0])

    def _sent(self, send: Callable[[], None]) -> Sequence[PGresult]:
        """Send and take all results; raise Refused for an error of the server's, psycopg.Error if
        the connection fails."""
        send()
        results: Sequence[PGresult] = self._connection.wait(
            generators.execute(self._connection.pgconn)
        )
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                if self._connection.closed:
                    raise psycopg.OperationalError("the connection was lost")
                sqlstate = result.error_field(DiagnosticField.SQLSTATE) or b""
                message = result.error_message.decode(errors="replace").strip()
                raise Refused(message, sqlstate.decode())
            if result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH):
                raise psycopg.OperationalError("COPY was not expected here")
        return results


def readable(text: str) -> Row:
    """Return the answer of EXPLAIN (FORMAT JSON) to a statement, that of several as one; raise
    Refused for one that is no plan that ``tree.read_plan`` reads, as of a statement that rules have
    replaced by nothing."""
    try:
        explained = _as_one([each for each in json.loads(text) if "Plan" in each], WITH_RULES)
        read_plan(explained)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise Refused("EXPLAIN gave no plan that can be read") from None
    return explained


_OF_PLAN = ("Total Cost", "Plan Rows", "Actual Total Time", "Actual Rows")
_OF_ANSWER = ("Planning Time", "Execution Time")


def _as_one(answers: Sequence[Row], kind: str) -> Row:
    """Return the answers for several statements as one, whose plan begins with a node of that
    kind."""
    if len(answers) == 1:
        return answers[0]
    tops = [each["Plan"] for each in answers]
    compiled = [each["JIT"] for each in answers if "JIT" in each]
    top = {"Node Type": kind, "Actual Loops": 1, "Plans": tops, **_sums(tops, _OF_PLAN)}
    return {
        **answers[0],
        **_sums(answers, _OF_ANSWER),
        **({"JIT": compiled[0]} if compiled else {}),
        "Plan": top,
        "Triggers": [trigger for each in answers for trigger in each.get("Triggers", ())],
    }


def _sums(rows: Sequence[Row], names: Sequence[str]) -> Row:
    return {name: sum(each[name] for each in rows) for name in names if name in rows[0]}


def _is_block_after(texts: Sequence[str], is_block: bool) -> bool:
    """Return whether a transaction block is open after statements."""
    for text in texts:
        if begins_with(text, _CONTROL):
            is_block = begins_with(text, _BEGINNING)
    return is_block


def _place(transaction: SampledTransaction, statement: SampledStatement) -> Place:
    return transaction["group"], transaction["script"], statement["position"]
