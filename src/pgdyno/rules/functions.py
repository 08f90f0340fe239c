"""Functions in the database, triggers, and checks of foreign keys."""

from __future__ import annotations

from pgdyno.facts.functions import TimedFunction, timed_foreign_keys, timed_functions, were_counted
from pgdyno.facts.plans import TimedChange, is_analyzed, saved_share
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, figure, listed, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._timed_changes import COST_SHARE, weight_of
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.sql_text import shortened

CHECK_MS_MIN = 0.5
SHOWN = 3
_UNEXECUTED = "statements were not executed to time their triggers"


@rule(
    "trigger-time",
    false_positives="a trigger whose work is needed, and would take as long in the statement",
)
def trigger_time(s: Situation) -> Found | Cleared:
    """Triggers whose functions take much of the time of the statements that fire them.

    On a server that pgdyno started, the load's statements are executed beside it while the server
    times their functions (track_functions). Trigger: the function of a trigger, with all that it
    executes itself, takes at least ``COST_SHARE`` of the response time. The gain predicted is that
    of statements without this time; no change is proposed, as a trigger is part of what the
    database does. Foreign keys have a rule of their own. Threshold: that of costly-settings.
    """
    timed = timed_functions(s, of_triggers=True)
    if not timed or saved_share(s, timed[0].timed) < COST_SHARE:
        return _cleared(s, timed, "functions of triggers")
    worst = timed[0]
    return _found(
        s,
        worst,
        f"{_named(worst)} takes",
        "do less in the trigger: for each statement instead of each row (FOR EACH STATEMENT with"
        " REFERENCING NEW TABLE), only where it matters (WHEN), with an index for what it looks"
        " up, or later and outside of the transaction",
    )


@rule(
    "function-time",
    false_positives="a function whose work is needed, and would take as long in SQL",
)
def function_time(s: Situation) -> Found | Cleared:
    """Functions of users and extensions that take much of the time of the statements that call
    them: in queries, in CHECK constraints, in defaults, in indexes, in functions of triggers.

    On a server that pgdyno started, the load's statements are executed beside it while the server
    times their functions (track_functions), and then while it reports the statements that these
    execute (auto_explain). SQL functions that are inlined are not counted, nor are those that are
    built in. Trigger: a function that returns no trigger takes at least ``COST_SHARE`` of the
    response time, without the functions and statements that it executes, as far as these were
    reported. The gain predicted is that of statements without this time. Threshold: that of
    costly-settings.
    """
    timed = timed_functions(s, of_triggers=False)
    if not timed or saved_share(s, timed[0].timed) < COST_SHARE:
        return _cleared(s, timed, "functions", alone=" without the statements that they execute")
    worst = timed[0]
    calls = counted(worst.worst.calls, "call", "calls")
    by_itself = "" if worst.worst.own_ms is None else " by itself"
    return _found(
        s,
        worst,
        f"the function {worst.worst.function} takes{by_itself}, in {calls},",
        "let the function do less, or call it for fewer rows: filter before it is called; declare"
        " it IMMUTABLE or STABLE if it is, so that it is called once where its arguments are"
        " constants; write it in SQL, which can be inlined",
    )


def _cleared(s: Situation, timed: list[TimedFunction], what: str, alone: str = "") -> Cleared:
    if not were_counted(s):
        raise Skip("there was no time to time the functions of all statements")
    if not timed:
        return Cleared(f"no statement calls {what} of users or extensions")
    share = saved_share(s, timed[0].timed)
    known = alone if timed[0].worst.own_ms is not None else ""
    return Cleared(
        f"{what} take {percent(share)} of the response time{known}", _evidence(s, timed[0])
    )


def _found(s: Situation, worst: TimedFunction, subject: str, advice: str) -> Found:
    statement = worst.timed.statements[0]
    return Found(
        sentence=(
            f"{subject} {figure(worst.ms)} of the {figure(statement.ms)} ms of a statement:"
            f" {shortened(statement.total.statement)}"
        ),
        confidence=0.9,
        evidence=_evidence(s, worst),
        causes=("missing-index", "costly-settings"),
        advice=advice,
        **weight_of(s, worst.timed),
    )


def _named(each: TimedFunction) -> str:
    """Return the triggers of a function, or the function if another one's statements fired it."""
    if not each.triggers:
        return f"the trigger function {each.worst.function}"
    named = [f"{trigger.trigger_name} of {trigger.relation}" for trigger in each.triggers]
    word = "trigger" if len(named) == 1 else "triggers"
    return f"the {word} {listed(named, SHOWN)}, function {each.worst.function},"


def _evidence(s: Situation, each: TimedFunction) -> list[Evidence]:
    statement, worst = each.timed.statements[0], each.worst
    return [
        _share_evidence(s, worst.function, each.timed),
        *(s.evidence(f"trigger of {t.relation}", t.trigger_name, "") for t in each.triggers),
        s.evidence("time of the function", worst.ms, "ms"),
        s.evidence("of it without functions that it calls", worst.self_ms, "ms"),
        *(
            [s.evidence("of it also without statements that it executes", worst.own_ms, "ms")]
            if worst.own_ms is not None
            else []
        ),
        s.evidence("calls by the statement", worst.calls, "count"),
        s.evidence("time of the statement", statement.ms, "ms"),
        s.evidence("statement", statement.total.statement, ""),
    ]


def _share_evidence(s: Situation, name: str, timed: TimedChange) -> Evidence:
    share = saved_share(s, timed)
    return s.evidence(f"{name} / response time", share, "share", f"at least {percent(COST_SHARE)}")


@rule(
    "foreign-key-time",
    false_positives="a referenced table whose pages are read from the disk for each check",
)
def foreign_key_time(s: Situation) -> Found | Cleared:
    """Foreign keys whose checks take much longer than the look-up of a row.

    By EXPLAIN ANALYZE of the load's statements, on a server that pgdyno started. Trigger: the
    checks of a foreign key take at least ``COST_SHARE`` of the response time, and each of them at
    least ``CHECK_MS_MIN``. One that takes longer reads the referencing table as a whole (see
    missing-index), waits for a lock, or fires further triggers of the tables that it changes.
    Threshold: ours; a check by an index takes less, also where a session plans its query again, as
    it does in the first executions.
    """
    keys = timed_foreign_keys(s)
    slow = [
        each
        for each in keys
        if each.worst.time_ms >= CHECK_MS_MIN * max(1.0, each.worst.calls)
        and saved_share(s, each.timed) >= COST_SHARE
    ]
    if not slow:
        if not is_analyzed(s):
            raise Skip(_UNEXECUTED)
        shares = [_share_evidence(s, each.worst.constraint, each.timed) for each in keys[:SHOWN]]
        return Cleared("no check of a foreign key takes long", shares)
    worst, statement = slow[0], slow[0].timed.statements[0]
    key = worst.worst
    return Found(
        sentence=(
            f"the checks of the foreign key {key.constraint} take {figure(key.time_ms)} of the"
            f" {figure(statement.ms)} ms of a statement: {shortened(statement.total.statement)}"
        ),
        confidence=0.9,
        evidence=[
            _share_evidence(s, key.constraint, worst.timed),
            s.evidence("time of the checks", key.time_ms, "ms"),
            s.evidence("each of them", key.time_ms / max(1.0, key.calls), "ms", _check_bar()),
            s.evidence("checks by the statement", key.calls, "count"),
            s.evidence(f"trigger of {key.relation}", key.name, ""),
            s.evidence("statement", statement.total.statement, ""),
        ],
        causes=("missing-index", "trigger-time", "costly-settings", "unpruned-partitions"),
        advice="give the referencing columns an index, and see what triggers the check fires",
        **weight_of(s, worst.timed),
    )


def _check_bar() -> str:
    return f"at least {CHECK_MS_MIN:g} ms"
