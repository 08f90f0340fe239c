"""The plans of the load's statements, and what of their work changes would save, as measured beside
the load (see ``pgdyno.plans``).

The work of a statement is its time in the server that its own execution decides: on a core, in the
queue for one, with parallel workers, with data files. Waits for locks, flushes and clients are not
part of it. A change that halves the time of a statement in a session by itself halves its work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from pgdyno.facts.budget import Part
from pgdyno.facts.situation import Situation
from pgdyno.facts.statement_budgets import statement_budgets
from pgdyno.plans.tree import Plan, read_plan
from pgdyno.record import StatementTotal, UnusualSetting
from pgdyno.record.finding import Skip
from pgdyno.spec.change import Change
from pgdyno.wait_events import DATA

WORK: tuple[Part, ...] = ("running", "ready", "parallel", *DATA, "too few samples")
"""Parts of a statement's time that its own execution decides."""
QUEUED: tuple[Part, ...] = ("ready", "too few samples")
"""Parts of them that are as long as the work of others."""
SAVED_MIN = 0.1
"""Part of the work of all statements that a change saves, below which it saves nothing: on a
busy machine the shortest times of 50 executions differed by 7 %."""
ANALYZED_SHARE_MIN = 0.9
HELD: tuple[Part, ...] = ("row", "advisory", "relation")
"""Parts that last as long as the transactions that hold the locks."""
LONGER_STATEMENTS = ("missing-index", "costly-settings", "kept-plan", "parse-plan", "jit")
"""Findings that make statements take longer, and so the locks of their transactions."""
NOT_LOOKED_AT = "the plans of the statements were not looked at"

_Place = tuple[str, str, int]


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
    is_replanned: bool

    @property
    def saved_ms(self) -> float:
        """Time of a transaction of the load that goes with the change; negative if there is
        more."""
        return self.per_transaction * (self.ms - self.changed_ms)


class TimedChange(Struct, frozen=True):
    """A change, and the times of the load's statements with and without it."""

    change: Change
    statements: Sequence[ChangedStatement]
    """Those that it saves most of first."""
    work_ms: float
    """Time of a transaction that is the work of statements under load, queues apart."""

    @property
    def saved_ms(self) -> float:
        """Time of a transaction that goes with the change, without a load beside it."""
        return sum(each.saved_ms for each in self.statements)

    @property
    def alone_ms(self) -> float:
        """Time of a transaction in its statements, without a load beside it."""
        return sum(each.per_transaction * each.ms for each in self.statements)

    @property
    def saved(self) -> float:
        """Part of the work of statements that goes with the change, at least; negative if there is
        more. Under load there is other work too."""
        whole_ms = max(self.alone_ms, self.work_ms)
        return self.saved_ms / whole_ms if whole_ms > 0 else 0.0

    @property
    def saved_max(self) -> float:
        """Part of it that goes at most: if all of the work becomes longer under load alike."""
        return self.saved_ms / self.alone_ms if self.alone_ms > 0 else 0.0

    @property
    def is_worthwhile(self) -> bool:
        """True if it saves ``SAVED_MIN`` of the work or more."""
        return self.saved >= SAVED_MIN


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
    """Return whether the statements with nearly all of the work were executed to be explained."""
    done = sum(
        each.work_share
        for each in (planned_statements(s) if was_looked_at(s) else ())
        if each.is_analyzed
    )
    return done >= ANALYZED_SHARE_MIN


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
    totals, done = _totals(s), s.throughput_tps * s.seconds
    by_change: dict[str, list[ChangedStatement]] = {}
    for row in s.run.statement_trials(s.slice_ids):
        if row.place in totals:
            total = totals[row.place]
            by_change.setdefault(row.change, []).append(
                ChangedStatement(
                    total=total,
                    per_transaction=total.service.count / done,
                    ms=row.ms,
                    changed_ms=row.changed_ms,
                    is_replanned=row.is_replanned,
                )
            )
    work_ms = sum(s.budget.parts_ms.get(part, 0.0) for part in WORK if part not in QUEUED)
    found = [
        TimedChange(
            Change.from_json(json.loads(text)),
            sorted(each, key=lambda one: -one.saved_ms),
            work_ms,
        )
        for text, each in by_change.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.saved))


def timed_settings(s: Situation) -> list[TimedChange]:
    """Return the changes of settings alone, those that save most first."""
    return [each for each in timed_changes(s) if each.change.settings]


def is_of_jit(timed: TimedChange) -> bool:
    """Return whether a change is of the settings of JIT alone."""
    return all(name.startswith("jit") for name in timed.change.settings)


def timed_indexes(s: Situation) -> list[TimedChange]:
    """Return the indexes that were tried, those that save most first."""
    return [each for each in timed_changes(s) if each.change.indexes]


def timed_protocol(s: Situation) -> TimedChange | None:
    """Return the trial of prepared statements; None without one."""
    found = (each for each in timed_changes(s) if "load.protocol" in each.change.spec)
    return next(found, None)


@lru_cache(maxsize=1)
def unusual_settings(s: Situation) -> tuple[UnusualSetting, ...]:
    """Return the settings of the load's sessions that are not at their built-in values. Raises Skip
    if they were not asked for."""
    if not was_looked_at(s):
        raise Skip(NOT_LOOKED_AT)
    return tuple(s.run.unusual_settings(s.slice_ids))


def work_parts(s: Situation) -> tuple[Part, ...]:
    """Return the parts of the latency budget that are the work of statements."""
    return tuple(part for part in WORK if part in s.budget.parts_ms)


def saved_share(s: Situation, change: TimedChange) -> float:
    """Return the share of the response time that goes with a change."""
    saved_ms = max(0.0, change.saved) * following_ms(s)
    return saved_ms / s.budget.response_ms if s.budget.response_ms > 0 else 0.0


def following_ms(s: Situation) -> float:
    """Return the time of a transaction that is as long as the work of statements: that work, and
    the waits for rows as far as their holders do such work."""
    work_ms = sum(s.budget.parts_ms.get(part, 0.0) for part in work_parts(s))
    locks_ms = sum(s.budget.parts_ms.get(part, 0.0) for part in HELD)
    holders_ms = s.budget.service_ms - locks_ms
    return work_ms + locks_ms * (work_ms / holders_ms if holders_ms > 0 else 0.0)


@lru_cache(maxsize=1)
def _work_shares(s: Situation) -> Mapping[_Place, float]:
    """Return statement → part of the work of all."""
    work: dict[_Place, float] = {}
    for each in statement_budgets(s):
        ms = sum(each.parts_ms.get(part, 0.0) for part in WORK)
        work[each.total.place] = ms * each.executions_per_transaction
    whole = sum(work.values())
    return {place: ms / whole for place, ms in work.items()} if whole > 0 else {}


@lru_cache(maxsize=1)
def _totals(s: Situation) -> Mapping[_Place, StatementTotal]:
    return {each.place: each for each in s.statements}
