"""The plans of the load's statements, and what of their work changes would save, as measured beside
the load (see ``pgdyno.plans``).

The work of a statement is its time in the server that its own execution decides: on a core, in the
queue for one, with parallel workers, with data files. Waits for locks, flushes and clients are not
part of it. A change that halves the time of a statement in a session by itself halves its work.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from pgdyno.facts.budget import Part
from pgdyno.facts.situation import Situation
from pgdyno.facts.statement_budgets import statement_budgets
from pgdyno.facts.wakeup_cost import WOKEN_CPU_S
from pgdyno.plans import LEAST_MS
from pgdyno.plans.tree import Node, Plan, read_plan
from pgdyno.record import Place, StatementTotal, StatementTrial, SupposedIndex, UnusualSetting
from pgdyno.record.finding import Skip
from pgdyno.spec.change import Change, controls_transaction
from pgdyno.spec.server_settings import is_of_jit, only_chooses_plans
from pgdyno.wait_events import DATA

WORK: tuple[Part, ...] = ("running", "ready", "parallel", *DATA, "too few samples")
"""Parts of a statement's time that its own execution decides."""
QUEUED: tuple[Part, ...] = ("ready", "too few samples")
"""Parts of them that are as long as the work of others."""
SAVED_MIN = 0.1
"""Part of the work of all statements that a change saves, below which it saves nothing: on a
busy machine the shortest times of 50 executions differed by 7 %."""
MAY_SAVE = 0.3
"""Part that a change must not be able to save, by the error of the times, where it is said to save
nothing: two executions on each side, which may differ by ``NOISE``, say nothing of it."""
ALONE_MS = 0.04
"""Time by which a short statement takes longer by itself than among others, whose sessions keep
caches warm: of the server's CPU, a select by key took 0.06 to 0.11 and not 0.02 to 0.03 ms."""
ANALYZED_SHARE_MIN = 0.9
HELD: tuple[Part, ...] = ("row", "advisory", "relation")
"""Parts that last as long as the transactions that hold the locks."""
LOCK_TABLE: Part = "lock manager"
"""Waits for the table of locks; those who queue for one lock make them, where they are longer."""
LONGER_STATEMENTS = (
    *("missing-index", "unusable-index", "unused-indexes", "pending-list", "costly-settings"),
    *("kept-plan", "parse-plan", "jit", "wrong-estimates", "parallel-workers"),
    *("unpruned-partitions", "skipped-rows", "late-conditions", "foreign-key-time"),
    *("trigger-time", "function-time", "needless-statements", "repeated-statements"),
    *("schema-changes", "bloated-table", "small-shared-buffers", "temp-files", "large-results"),
)
"""Findings that make statements take longer, and so the locks of their transactions."""
OUTSIDE_SERVER = ("client-pauses", "round-trips")
LONGER_TRANSACTIONS = (
    *LONGER_STATEMENTS,
    *OUTSIDE_SERVER,
    *("commit-delay", "other-load", "connection-per-transaction"),
    *("hot-row", "batch-update", "advisory-lock", "relation-lock"),
)
"""Findings that make transactions take longer, and so keep their clients busy; those in which the
server does nothing meanwhile."""
PLAN_CACHE_MODE = "plan_cache_mode"
WORK_MEM = "work_mem"
Against = TypeVar("Against")
OfChange = TypeVar("OfChange", StatementTrial, SupposedIndex)
NOT_LOOKED_AT = "the plans of the statements were not looked at"

COST_TIMES = 3.0
"""Factor by which the time of a plan may differ from the planner's costs; ours."""
RESULT_ROWS_MIN = 500
"""Rows from which on a result is large; ours: a page that people read shows tens."""
RETURNED_SHARE_MIN = 0.5
"""Part of the rows that a plan reads that it returns, from which on its work is for the result."""


class PlannedStatement(Struct, frozen=True):
    """A statement of the load and its plan."""

    total: StatementTotal
    work_share: float
    """Part of the work of all statements, 0 to 1."""
    is_generic: bool | None
    """True for a plan for any values, of a prepared statement; None if it is not prepared."""
    is_analyzed: bool
    plan: Plan | None
    lack: str
    """Reason why there is no plan."""


class ChangedStatement(Struct, frozen=True):
    """A statement without and with a change."""

    total: StatementTotal
    per_transaction: float
    """Executions for each transaction of the load."""
    ms: float
    changed_ms: float
    log_error: float
    is_replanned: bool

    @property
    def saved_ms(self) -> float:
        """Time of a transaction of the load that goes with the change; negative if there is
        more."""
        return self.per_transaction * (self.ms - self.changed_ms)


class TimedChange(Struct, frozen=True):
    """A change, and the times of the load's statements with and without it.

    Under load a statement takes longer than by itself: it shares caches and cores, and its session
    is woken. What it saves grows with it, but for the cost of being woken.
    """

    change: Change
    statements: Sequence[ChangedStatement]
    """Those that it saves most of first."""
    other_part: float
    """Part of the work under load that may be that of being woken, 0 to 1."""
    processes: float
    """Processes that a transaction's statements run in without the change, on average over its
    time, parallel workers included."""

    @property
    def saved_ms(self) -> float:
        """Time of a transaction that goes with the change, without a load beside it."""
        return sum(each.saved_ms for each in self.statements)

    @property
    def saved(self) -> float:
        """Part of the work of statements that goes with the change; negative if there is more."""
        return (1.0 - self._left()) * (1.0 - self.other_part)

    @property
    def saved_min(self) -> float:
        """The least of it, by the error of the times."""
        return (1.0 - self._left(errors=1)) * (1.0 - self.other_part)

    @property
    def saved_max(self) -> float:
        """The most of it, if all work becomes longer under load alike, but for ``ALONE_MS`` of each
        statement, and parallel workers have no core of their own."""
        return 1.0 - self._left(errors=-1, alone_ms=ALONE_MS) / self.processes

    @property
    def is_worthwhile(self) -> bool:
        """True if it certainly saves, and ``SAVED_MIN`` of the work or more."""
        return self.saved >= SAVED_MIN and self.saved_min > 0.0

    @property
    def is_undecided(self) -> bool:
        """True if by the error of the times it may save ``MAY_SAVE``, or seems to save
        ``SAVED_MIN`` and may not."""
        if self.is_worthwhile:
            return False
        return self.saved >= SAVED_MIN or 1.0 - self._left(errors=-1) >= MAY_SAVE

    def _left(self, errors: int = 0, alone_ms: float = 0.0) -> float:
        """Time of a transaction in its statements with the change, relative to that without; with
        all ``errors`` of the times to one side, 1 or -1, and without ``alone_ms`` of each."""
        ms = changed_ms = 0.0
        for each in self.statements:
            with_error_ms = each.changed_ms * math.exp(errors * each.log_error)
            ms += each.per_transaction * max(LEAST_MS, each.ms - alone_ms)
            changed_ms += each.per_transaction * max(LEAST_MS, with_error_ms - alone_ms)
        return changed_ms / ms if ms > 0 else 1.0


@lru_cache(maxsize=1)
def was_looked_at(s: Situation) -> bool:
    """Return whether plans were looked at."""
    return bool(s.run.statement_plans(s.slice_ids))


@lru_cache(maxsize=1)
def planned_statements(s: Situation) -> tuple[PlannedStatement, ...]:
    """Return the statements with their plans, those with most work first. Raises Skip if they were
    not looked at."""
    rows = s.run.statement_plans(s.slice_ids)
    if not rows:
        raise Skip(NOT_LOOKED_AT)
    shares, totals = _work_shares(s), _totals(s)
    found = [
        PlannedStatement(
            total=totals[row.place],
            work_share=shares.get(row.place, 0.0),
            is_generic=row.is_generic,
            is_analyzed=row.is_analyzed,
            plan=None if row.plan is None else read_plan(json.loads(row.plan)),
            lack=row.lack,
        )
        for row in rows
        if row.place in totals
    ]
    return tuple(sorted(found, key=lambda each: -each.work_share))


def is_analyzed(s: Situation) -> bool:
    """Return whether the statements with nearly all of the work of those that can have a plan were
    executed to be explained."""
    if not was_looked_at(s):
        return False
    done = sum(each.work_share for each in planned_statements(s) if each.is_analyzed)
    controls = {each.place for each in s.statements if controls_transaction(each.statement)}
    whole = sum(part for place, part in _work_shares(s).items() if place not in controls)
    return done >= ANALYZED_SHARE_MIN * whole > 0.0


def executed_ms(s: Situation) -> dict[Place, float]:
    """Return the execution times of the statements that were executed to be explained."""
    return {
        each.total.place: each.plan.execution_ms
        for each in planned_statements(s)
        if each.plan is not None and each.plan.execution_ms is not None
    }


def nodes_share(s: Situation, statement: PlannedStatement, nodes: Iterable[Node]) -> float:
    """Return the share of the response time that nodes of a statement's plan take themselves; 0 if
    it was not executed."""
    plan, response_ms = statement.plan, s.budget.response_ms
    if plan is None or not plan.execution_ms or response_ms <= 0:
        return 0.0
    taken_ms = sum(node.own_ms or 0.0 for node in nodes)
    part = statement.work_share * min(1.0, taken_ms / plan.execution_ms)
    return part * following_ms(s) / response_ms


def large_results(s: Situation) -> list[PlannedStatement]:
    """Return the statements whose work is that for a large result, those with most work first: they
    return most of the many rows that they read. Raises Skip if plans were not looked at."""
    return [each for each in planned_statements(s) if _returns_many(each)]


def large_results_part(s: Situation) -> float:
    """Return the part of the statements' work that is for large results, as far as it is known."""
    return sum(each.work_share for each in large_results(s)) if was_looked_at(s) else 0.0


def _returns_many(statement: PlannedStatement) -> bool:
    if statement.plan is None or not statement.is_analyzed:
        return False
    rows = statement.plan.root.rows or 0.0
    read = sum(each.read for each in statement.plan.nodes() if not each.children)
    return rows >= max(RESULT_ROWS_MIN, RETURNED_SHARE_MIN * read)


def planning_part(s: Situation) -> float | None:
    """Return the part of the statements' work that planning takes, where each is planned again at
    each execution; None if the plans were not looked at."""
    if not was_looked_at(s):
        return None
    found = 0.0
    for each in planned_statements(s):
        mean_ms = each.total.service.mean / 1e6
        if each.plan is not None and each.plan.planning_ms is not None and mean_ms > 0:
            found += each.work_share * min(1.0, each.plan.planning_ms / mean_ms)
    return found


@lru_cache(maxsize=1)
def timed_changes(s: Situation) -> tuple[TimedChange, ...]:
    """Return the changes that were tried beside the load, those that save most first; none if
    there was no time, or on a server that is not pgdyno's."""
    return tuple(_by_saved(s, s.run.statement_trials(s.slice_ids), _timed_trials))


def _by_saved(
    s: Situation,
    rows: Iterable[OfChange],
    judge: Callable[[Situation, Change, Sequence[OfChange]], TimedChange],
) -> list[TimedChange]:
    """Return the changes of rows, each as ``judge`` has it, those that save most first."""
    by_change: dict[str, list[OfChange]] = {}
    for row in rows:
        by_change.setdefault(row.change, []).append(row)
    found = [judge(s, Change.from_json(json.loads(text)), of) for text, of in by_change.items()]
    return sorted(found, key=lambda each: -each.saved)


def _timed_trials(s: Situation, change: Change, rows: Iterable[StatementTrial]) -> TimedChange:
    totals, done = _totals(s), s.throughput_tps * s.seconds
    told_by_plans = _told_by_plans(s, change)
    statements = []
    for row in rows:
        if row.place not in totals:
            continue
        total, is_same = totals[row.place], not row.is_replanned and row.place in told_by_plans
        kept = is_same or (change.settings and _is_as_before(row, change.settings))
        statements.append(
            ChangedStatement(
                total=total,
                per_transaction=total.service.count / done,
                ms=row.ms,
                changed_ms=row.ms if kept else row.changed_ms,
                log_error=0.0 if kept else row.log_error,
                is_replanned=row.is_replanned,
            )
        )
    return timed_change(s, change, statements)


def _told_by_plans(s: Situation, change: Change) -> Collection[Place]:
    """Return the statements whose work with a change is the same if their plan is, whatever their
    times: with another index, or other statistics, those that only read, and call no functions,
    which have plans of their own. None where a table or an index is written again, and with other
    settings or another protocol."""
    written_again = {each.make for each in s.run.suspects(s.slice_ids)}
    if change.settings or change.spec or written_again & {*change.sql.get("make", ())}:
        return ()
    calling = {each.place for each in s.run.called_functions(s.slice_ids)}
    reading = [each for each in planned_statements(s) if each.plan and each.plan.only_reads]
    return {each.total.place for each in reading} - calling


def _is_as_before(row: StatementTrial, names: Iterable[str]) -> bool:
    """Return whether a statement's plan keeps its form with other settings, and its time but for
    the error; an error of ``MAY_SAVE`` or more hides much of what settings do that act on more than
    the choice of a plan."""
    if row.is_replanned or abs(math.log(row.changed_ms / row.ms)) > row.log_error:
        return False
    return math.exp(-row.log_error) > 1.0 - MAY_SAVE or all(map(only_chooses_plans, names))


def trials_of_sql(
    s: Situation, made: Mapping[tuple[str, ...], Against]
) -> list[tuple[TimedChange, Against]]:
    """Return the trials of these SQL statements, each with its value in ``made``, those that save
    most first."""
    tried = [(each, tuple(each.change.sql.get("make", ()))) for each in timed_changes(s)]
    return [(each, made[statements]) for each, statements in tried if statements in made]


def timed_change(
    s: Situation, change: Change, statements: Sequence[ChangedStatement]
) -> TimedChange:
    """Return a change with the load's statements as they are without and with it."""
    return TimedChange(
        change,
        sorted(statements, key=lambda one: -one.saved_ms),
        _other_part(s, statements),
        _processes(s, statements),
    )


def _other_part(s: Situation, statements: Iterable[ChangedStatement]) -> float:
    """Return the part of the work of a transaction under load, queues apart, that statements do not
    take by themselves, as far as being woken may take it."""
    work_ms = sum(s.budget.parts_ms.get(part, 0.0) for part in WORK if part not in QUEUED)
    alone_ms = sum(each.per_transaction * each.ms for each in statements)
    woken = sum(each.service.count for each in s.statements) / (s.throughput_tps * s.seconds)
    other_ms = min(max(0.0, work_ms - alone_ms), 1e3 * WOKEN_CPU_S * woken)
    return other_ms / work_ms if other_ms > 0 else 0.0


def _processes(s: Situation, statements: Iterable[ChangedStatement]) -> float:
    """Return the processes of the statements' plans, on average over their time."""
    plans = {each.total.place: each.plan for each in planned_statements(s)}
    times_ms = {each.total.place: each.per_transaction * each.ms for each in statements}
    taken = sum(ms * _processes_of(plans.get(place)) for place, ms in times_ms.items())
    whole = sum(times_ms.values())
    return taken / whole if whole > 0 else 1.0


def _processes_of(plan: Plan | None) -> int:
    return 1 if plan is None else 1 + max(node.workers_launched for node in plan.nodes())


def timed_settings(s: Situation) -> list[TimedChange]:
    """Return the changes of settings alone, those that save most first."""
    return [each for each in timed_changes(s) if each.change.settings]


def changes_jit(timed: TimedChange) -> bool:
    """Return whether a change is of the settings of JIT alone."""
    return all(map(is_of_jit, timed.change.settings))


def is_of_kept_plan(s: Situation, timed: TimedChange) -> bool:
    """Return whether a change is to the other kind of plan than the one that the server chose."""
    is_set = any(each.name == PLAN_CACHE_MODE for each in unusual_settings(s))
    return [*timed.change.settings] == [PLAN_CACHE_MODE] and not is_set


def is_without_workers(timed: TimedChange) -> bool:
    """Return whether a change is that no plan starts parallel workers."""
    return dict(timed.change.settings) == {"max_parallel_workers_per_gather": "0"}


def is_of_spilling(s: Situation, timed: TimedChange) -> bool:
    """Return whether a change is that of work_mem to hold what plans wrote to disk."""
    if [*timed.change.settings] != [WORK_MEM]:
        return False
    resets = [each.reset for each in unusual_settings(s) if each.name == WORK_MEM]
    return timed.change.settings[WORK_MEM] not in resets


def timed_indexes(s: Situation) -> list[TimedChange]:
    """Return the indexes that were tried, those that save most first."""
    return [each for each in timed_changes(s) if each.change.indexes]


def supposed_indexes(s: Situation) -> list[TimedChange]:
    """Return the indexes that the planner was asked to suppose, those that save most first: of the
    time of a statement as much as of its cost, within ``COST_TIMES``."""
    return _by_saved(s, s.run.supposed_indexes(s.slice_ids), _supposed)


def _supposed(s: Situation, change: Change, rows: Iterable[SupposedIndex]) -> TimedChange:
    totals, done = _totals(s), s.throughput_tps * s.seconds
    statements = []
    for row in rows:
        if row.place in totals and row.cost > 0:
            total = totals[row.place]
            ms, is_same = total.service.mean / 1e6, row.supposed_cost == row.cost
            statements.append(
                ChangedStatement(
                    total=total,
                    per_transaction=total.service.count / done,
                    ms=ms,
                    changed_ms=ms * row.supposed_cost / row.cost,
                    log_error=0.0 if is_same else math.log(COST_TIMES),
                    is_replanned=not is_same,
                )
            )
    return timed_change(s, change, statements)


def timed_protocol(s: Situation) -> TimedChange | None:
    """Return the trial of prepared statements; None without one."""
    found = (each for each in timed_changes(s) if "load.protocol" in each.change.spec)
    return next(found, None)


@lru_cache(maxsize=1)
def unusual_settings(s: Situation) -> tuple[UnusualSetting, ...]:
    """Return the settings of the load's sessions that are not at their built-in values. Raises Skip
    if it is not known that they were asked for."""
    found = tuple(s.run.unusual_settings(s.slice_ids))
    if not found and not was_looked_at(s):
        raise Skip(NOT_LOOKED_AT)
    return found


def work_parts(s: Situation) -> tuple[Part, ...]:
    """Return the parts of the latency budget that are the work of statements."""
    return tuple(part for part in WORK if part in s.budget.parts_ms)


def saved_share(s: Situation, change: TimedChange) -> float:
    """Return the share of the response time that goes with a change, a backlog apart: where
    transactions wait for a free client, that wait is as long as theirs together."""
    begun = s.budget.begun
    return owned_share(s, change) / begun if begun > 0 else 0.0


def owned_share(s: Situation, change: TimedChange) -> float:
    """Return the share of the whole response time that goes with a change, for ``Found.share``,
    which adds its part of the queues."""
    saved_ms = max(0.0, change.saved) * following_ms(s)
    return saved_ms / s.budget.response_ms if s.budget.response_ms > 0 else 0.0


def following_ms(s: Situation) -> float:
    """Return the time of a transaction that is as long as the work of statements: that work, and
    the waits for rows as far as their holders do such work."""
    work_ms = sum(s.budget.parts_ms.get(part, 0.0) for part in work_parts(s))
    locks_ms = sum(s.budget.parts_ms.get(part, 0.0) for part in HELD)
    table_ms = s.budget.parts_ms.get(LOCK_TABLE, 0.0)
    if locks_ms > table_ms:
        locks_ms += table_ms
    holders_ms = s.budget.service_ms - locks_ms
    return work_ms + locks_ms * (work_ms / holders_ms if holders_ms > 0 else 0.0)


@lru_cache(maxsize=1)
def _work_shares(s: Situation) -> Mapping[Place, float]:
    """Return statement → part of the work of all."""
    work: dict[Place, float] = {}
    for each in statement_budgets(s):
        ms = sum(each.parts_ms.get(part, 0.0) for part in WORK)
        work[each.total.place] = ms * each.executions_per_transaction
    whole = sum(work.values())
    return {place: ms / whole for place, ms in work.items()} if whole > 0 else {}


@lru_cache(maxsize=1)
def _totals(s: Situation) -> Mapping[Place, StatementTotal]:
    return {each.place: each for each in s.statements}
