"""Autovacuum that others keep from a table."""

from __future__ import annotations

from pgdyno.facts.autovacuum import NAPTIMES, OVERDUE_S_MIN, TIMES, Autovacuum
from pgdyno.facts.autovacuum_obstacles import HELD_SHARE, Obstacle, obstacles
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._bloat import bloat, bloat_evidence, cost_in_words
from pgdyno.rules._queues import quoted
from pgdyno.rules.rule import Cleared, Found, rule

LIFTABLE = 0.8
"""As where autovacuum is too slow: dead rows pile up between two vacuums all the same."""


@rule(
    "autovacuum-blocked",
    false_positives="maintenance that is over soon, after which autovacuum comes",
)
def autovacuum_blocked(s: Situation) -> Found | Cleared:
    """Autovacuum kept from a table: others hold the lock that it needs, or have it cancelled.

    Autovacuum leaves out a table that it cannot lock at once (ShareUpdateExclusiveLock), and comes
    again after autovacuum_naptime. While it works, a session that waits for a lock which it
    excludes has it cancelled after deadlock_timeout, and its work on the heap since the last pass
    over the indexes is not counted. So LOCK TABLE, ALTER TABLE, CREATE INDEX and the like, each
    repeated often enough, keep a table from being vacuumed for as long as they go on; dead rows
    grow, and nothing in the load itself fails. Only the log of the server says "canceling
    autovacuum task", or "skipping vacuum" with log_autovacuum_min_duration.

    Trigger: a table has been above its threshold for ``NAPTIMES`` times autovacuum_naptime, and at
    least ``OVERDUE_S_MIN``, up to the end of the period, has ``TIMES`` times as many dead rows then
    as that, no autovacuum of it was counted in the period, and either

    * none was seen at work, and in at least ``HELD_SHARE`` of the samples since it is due a session
      held a lock on it that excludes autovacuum; or
    * at least one was seen at work and ended, and sessions were seen waiting for it.

    Thresholds: those of "autovacuum-slow" for a table that is overdue; a lock that is held for half
    of the time excludes all of three attempts by chance in one of eight cases.

    Look-alikes: a table whose option turns autovacuum off ("autovacuum-off"); workers that are too
    slow ("autovacuum-slow"); vacuums that end and leave the rows ("xmin-pinned").
    """
    autovacuum = Autovacuum(s)
    if autovacuum.off is not None:
        return Cleared("autovacuum is off", [s.evidence("off", autovacuum.off, "")])
    kept = obstacles(s)
    if not kept:
        if s.seconds < autovacuum.patience_s:
            raise Skip(
                f"the run is shorter than {figure(autovacuum.patience_s)} s, after which a table"
                " that is due is overdue"
            )
        late = s.evidence("tables that are overdue", len(autovacuum.overdue), "count")
        return Cleared("no session was seen to keep autovacuum from a table", [late])
    worst, seen = kept[0], bloat(s)
    return Found(
        sentence=f"{_sentence(worst)}{cost_in_words(seen)}",
        parts=seen.parts,
        share=seen.share,
        removable_share=LIFTABLE,
        severity=None if seen.share else "costs",
        confidence=0.85,
        evidence=[*_evidence(s, worst), *bloat_evidence(s, seen)],
        advice=_advice(worst),
    )


def _sentence(worst: Obstacle) -> str:
    table = worst.table
    due = (
        f"it has {figure(table.dead)} dead rows, {table.dead / max(1.0, table.due_rows):.1f} times"
        f" its threshold, and was due for {duration(table.overdue_s)}"
    )
    statement = quoted(worst.statement) or "a session whose statement is not visible"
    if worst.never_began:
        return (
            f"autovacuum does not get its lock on {worst.relation}, which others hold in"
            f" {percent(worst.held_share)} of the samples, most often in {worst.mode}, executing:"
            f" {statement}; {due}"
        )
    times = counted(worst.cancelled, "autovacuum", "autovacuums")
    return (
        f"{times} of {worst.relation} ended without being counted, as those do that are cancelled,"
        f" while a session waited for {worst.mode} to execute: {statement}; {due}"
    )


def _evidence(s: Situation, worst: Obstacle) -> list[Evidence]:
    table = worst.table
    return [
        s.evidence("table that was due for the longest time", worst.relation, ""),
        s.evidence("due for", table.overdue_s, "s",
                   f"at least {NAPTIMES} times autovacuum_naptime, and {OVERDUE_S_MIN:g} s"),
        s.evidence("its dead rows", table.dead, "rows", f"at least {TIMES} times the threshold"),
        s.evidence("threshold of autovacuum", table.due_rows, "rows"),
        s.evidence("autovacuums of it that were counted", table.vacuums, "count", "none"),
        s.evidence("autovacuums of it that were seen", worst.attempts, "count"),
        s.evidence("of these ended", worst.cancelled, "count"),
        s.evidence("sessions seen waiting for one, over all looks", worst.waited_for, "count"),
        s.evidence(
            "samples in which others had it locked against autovacuum", worst.held_share, "share",
            f"at least {percent(HELD_SHARE)} if none was seen",
        ),
        s.evidence("mode held or wanted", worst.mode, ""),
        *([s.evidence("statement", worst.statement, "")] if worst.statement else []),
    ]  # fmt: skip


def _advice(worst: Obstacle) -> str:
    how = (
        "hold the lock for shorter times and leave pauses of more than autovacuum_naptime between"
        if worst.never_began
        else "leave pauses in which a vacuum of it can end, or lock rows instead of the table"
    )
    return (
        f"{how}, use a mode that does not conflict with ShareUpdateExclusiveLock (ROW EXCLUSIVE or"
        " weaker); or execute VACUUM on it, which waits for its lock and is not cancelled"
    )
