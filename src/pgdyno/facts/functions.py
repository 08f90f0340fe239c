"""The time of functions in the statements of the load: those that they call, those of their
triggers, and the checks of foreign keys.

Functions are timed by the server while the statements are executed beside the load (see
``pgdyno.plans``), triggers of foreign keys by EXPLAIN. The time of a trigger's function has that of
the functions and statements that it executes. That of other functions has not, as far as it is
known: the work of a function that is all of a transaction is that of its statements.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pgdyno.facts.plans import (
    ANALYZED_SHARE_MIN,
    NOT_LOOKED_AT,
    TimedChange,
    executed_ms,
    planned_statements,
    was_looked_at,
)
from pgdyno.facts.situation import Situation
from pgdyno.facts.without import without_time
from pgdyno.numbers import listed
from pgdyno.plans.tree import Trigger
from pgdyno.record import CalledFunction, Place, TableTrigger
from pgdyno.record.finding import Skip


class TimedFunction(Struct, frozen=True):
    """A function, and the load's statements without its time."""

    worst: CalledFunction
    """In the statement that it makes longest, by the time of a transaction."""
    ms: float
    """Its time there."""
    timed: TimedChange
    """Its change is empty: a function cannot be left out."""
    triggers: Sequence[TableTrigger]
    """The triggers that call it; none for one that statements call."""


class TimedForeignKey(Struct, frozen=True):
    """The check of a foreign key, and the load's statements without its time."""

    worst: Trigger
    timed: TimedChange


def timed_functions(s: Situation, *, of_triggers: bool) -> list[TimedFunction]:
    """Return the functions of triggers, or the others, that statements call, those that take most
    time first. Raises Skip if they were not timed."""
    counted = {each.place: each.ms for each in s.run.counted_statements(s.slice_ids)}
    if not counted:
        raise Skip(_untimed(s) if was_looked_at(s) else NOT_LOOKED_AT)
    called: dict[str, dict[Place, CalledFunction]] = {}
    for each in s.run.called_functions(s.slice_ids):
        if each.is_trigger == of_triggers:
            called.setdefault(each.function, {})[each.place] = each
    triggers = s.run.table_triggers(s.slice_ids)
    found = []
    for name, mine in called.items():
        times_ms = {place: _taken_ms(each) for place, each in mine.items()}
        timed = without_time(s, counted, times_ms)
        if timed.statements and (worst := mine.get(timed.statements[0].total.place)) is not None:
            calling = [each for each in triggers if each.function == name]
            found.append(TimedFunction(worst, times_ms[worst.place], timed, calling))
    return sorted(found, key=lambda each: -each.timed.saved)


def _taken_ms(each: CalledFunction) -> float:
    return each.ms if each.is_trigger or each.own_ms is None else each.own_ms


def were_counted(s: Situation) -> bool:
    """Return whether functions were counted of the statements with nearly all of the work of those
    that were looked at."""
    counted = {each.place for each in s.run.counted_statements(s.slice_ids)}
    work = [(each.total.place in counted, each.work_share) for each in planned_statements(s)]
    done = sum(share for is_counted, share in work if is_counted)
    return done >= ANALYZED_SHARE_MIN * sum(share for _, share in work)


def _untimed(s: Situation) -> str:
    """Return the reason why functions were not timed, with the triggers that may take time."""
    triggers = s.run.table_triggers(s.slice_ids)
    named = [f"{each.trigger_name} of {each.relation} ({each.function})" for each in triggers]
    if not named:
        return "functions were not timed"
    return f"the time of triggers was not measured: {listed(named)}"


def timed_foreign_keys(s: Situation) -> list[TimedForeignKey]:
    """Return the foreign keys that statements check, those that take most time first. Raises Skip
    if the plans were not looked at."""
    executed = executed_ms(s)
    checks: dict[str, dict[Place, Trigger]] = {}
    for each in planned_statements(s):
        if each.total.place in executed and each.plan is not None:
            for trigger in each.plan.triggers:
                if trigger.constraint:
                    checks.setdefault(trigger.constraint, {})[each.total.place] = trigger
    found = []
    for mine in checks.values():
        timed = without_time(s, executed, {place: each.time_ms for place, each in mine.items()})
        worst = mine.get(timed.statements[0].total.place)
        if worst is not None:
            found.append(TimedForeignKey(worst, timed))
    return sorted(found, key=lambda each: -each.timed.saved)
