"""Autovacuum too slow: tables have more dead rows than its threshold, and it does not catch up.

Trigger: a table has been above its threshold for ``NAPTIMES`` times autovacuum_naptime, and at
least ``OVERDUE_S_MIN``, up to the end of the period, has ``TIMES`` as many dead rows then, and the
workers are the reason: they are asleep for their cost delay for at least ``ASLEEP_SHARE`` of their
time, or all of them are at work.

Thresholds: autovacuum looks at a database once per naptime, so a table that is due is vacuumed
within one, if a worker is free; db-triage alarms at twice the threshold, and where all workers are
at work and 20 tables are overdue. The share asleep is calibrated by injection: a cost
delay of 100 ms put workers to sleep for 99 % of their time, the defaults on small tables for 10 %.

Look-alikes: where an old xmin is held, vacuums end and leave the rows ("xmin-pinned"); where the
threshold itself is high, no table is overdue ("autovacuum-threshold"); vacuums that are too fast
cost throughput while they run ("vacuum-load"). From version 18 pg_stat_progress_vacuum has the time
slept, with track_cost_delay_timing.
"""

from __future__ import annotations

from pgdyno.diagnose._bloat import Bloat, bloat, bloat_evidence, cost_in_words
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.autovacuum import Autovacuum, Upkeep
from pgdyno.diagnose.facts.holders import held_back
from pgdyno.numbers import duration, figure, percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.spec.change import Change
from pgdyno.spec.setting_defaults import AUTOVACUUM, DEFAULTS
from pgdyno.spec.sql_text import relation

NAPTIMES = 3
TIMES = 2
OVERDUE_S_MIN = 5.0
ASLEEP_SHARE = 0.5
BUSY_SHARE = 0.9
LIFTABLE = 0.8
_DELAY = "autovacuum_vacuum_cost_delay"
_LIMIT = "autovacuum_vacuum_cost_limit"
_LIMIT_FACTOR = 10
_LIMIT_MAX = 10_000


def examine(s: Situation) -> Found | Cleared:
    """Examine how long each table was due, and what the workers did."""
    autovacuum = Autovacuum(s)
    patience_s = max(NAPTIMES * autovacuum.naptime_s, OVERDUE_S_MIN)
    worst = max(autovacuum.tables, key=lambda table: (_piled_up(table), table.overdue_s))
    evidence = _evidence(s, autovacuum, worst, patience_s)
    if autovacuum.off is not None:
        return Cleared("autovacuum is off", evidence)
    if worst.overdue_s < patience_s or not _piled_up(worst):
        if s.seconds < patience_s:
            raise Skip(
                f"the run is shorter than {NAPTIMES} times autovacuum_naptime, {figure(patience_s)}"
                " s, within which a table that is due is vacuumed"
            )
        return Cleared("no table had more dead rows than its threshold for long", evidence)
    reason = _reason(autovacuum)
    if reason is None or held_back(s):
        return Cleared(
            f"{worst.relation} is overdue, but the pace of the workers is not the reason", evidence
        )
    seen = bloat(s)
    return Found(
        sentence=(
            f"autovacuum does not keep up: {worst.relation} has {figure(worst.dead)} dead rows,"
            f" {worst.dead / max(1.0, worst.due_rows):.1f} times its threshold, and was due for"
            f" {duration(worst.overdue_s)}; {reason}{cost_in_words(seen)}"
        ),
        parts=seen.parts,
        share=seen.share,
        liftable=LIFTABLE,
        confidence=0.8,
        evidence=[*evidence, *bloat_evidence(s, seen)],
        proposals=_proposals(autovacuum, s, seen),
        advice=(
            "raise autovacuum_vacuum_cost_limit, or lower autovacuum_vacuum_cost_delay, for the"
            f" server or with ALTER TABLE {relation(worst.relation)} SET (…); more workers share"
            " one limit and help only with many tables"
        ),
    )


def _piled_up(table: Upkeep) -> bool:
    return table.dead >= TIMES * table.due_rows


def _reason(autovacuum: Autovacuum) -> str | None:
    """Return the reason why the workers are too slow, None if none was seen."""
    if autovacuum.workers > 0 and autovacuum.asleep_share >= ASLEEP_SHARE:
        return (
            "its workers are asleep for their cost delay for"
            f" {percent(autovacuum.asleep_share)} of the time"
        )
    most = autovacuum.number("autovacuum_max_workers")
    if autovacuum.workers >= BUSY_SHARE * most:
        return f"all {figure(most)} workers are at work"
    return None


def _proposals(autovacuum: Autovacuum, s: Situation, seen: Bloat) -> list[Proposal]:
    """Return the default delay if it is longer, else a higher limit."""
    ratio = 1.0 / (1.0 - min(0.9, seen.share * LIFTABLE))
    if ratio < WORTHWHILE_RATIO:
        return []
    delay_ms = s.settings.duration_ms(_DELAY)
    if delay_ms is not None and delay_ms > 2.0:
        change = Change(settings={_DELAY: DEFAULTS[_DELAY]})
        return [
            Proposal(
                remedy_id="reset-setting",
                change=change,
                predicted_ratio=ratio,
                why="vacuum would pause less",
                specific=True,
            )
        ]
    limit = autovacuum.number(_LIMIT)
    limit = limit if limit > 0 else autovacuum.number("vacuum_cost_limit")
    faster = max(min(_LIMIT_MAX, limit * _LIMIT_FACTOR), float(AUTOVACUUM["vacuum_cost_limit"]))
    if faster <= limit:
        return []
    change = Change(settings={_LIMIT: f"{faster:.0f}"})
    why = f"vacuum would do {figure(faster / limit)} times as much between its pauses"
    return [
        Proposal(
            remedy_id="autovacuum-faster",
            change=change,
            predicted_ratio=ratio,
            why=why,
            specific=True,
        )
    ]


def _evidence(
    s: Situation, autovacuum: Autovacuum, worst: Upkeep, patience_s: float
) -> list[Evidence]:
    return [
        s.evidence("table that was due for the longest time", worst.relation, ""),
        s.evidence("due for", worst.overdue_s, "s", f"at least {duration(patience_s)}"),
        s.evidence("its dead rows", worst.dead, "rows", f"at least {TIMES} times the threshold"),
        s.evidence("threshold of autovacuum", worst.due_rows, "rows"),
        s.evidence("autovacuums of it that ended", worst.vacuums, "count"),
        s.evidence("autovacuum workers", autovacuum.workers, "count"),
        s.evidence(
            "workers asleep for the cost delay", autovacuum.asleep_share, "share",
            f"at least {percent(ASLEEP_SHARE)}",
        ),
    ]  # fmt: skip


SIGNATURE = Signature(
    id="autovacuum-slow",
    false_positives=(
        "a table whose first vacuum is a large one and ends soon; statistics that were just reset"
    ),
    examine=examine,
)
