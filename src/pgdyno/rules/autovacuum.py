"""Autovacuum that is off, starts too late or is too slow."""

from __future__ import annotations

from pgdyno.facts.autovacuum import NAPTIMES, OVERDUE_S_MIN, TIMES, Autovacuum, Upkeep
from pgdyno.facts.autovacuum_obstacles import obstacles
from pgdyno.facts.holders import held_back
from pgdyno.facts.sight import Sight, alter_system, measured, proposed
from pgdyno.facts.situation import Situation
from pgdyno.json_types import Row
from pgdyno.numbers import duration, figure, listed, percent
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._bloat import DEAD_ROWS_MIN, Bloat, bloat, bloat_evidence, cost_in_words
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import AUTOVACUUM, DEFAULTS
from pgdyno.spec.sql_text import relation

AUTOVACUUM_OFF_LIFTABLE = 0.7
"""Vacuum comes once per naptime, and dead rows pile up in between."""


@rule(
    "autovacuum-off",
    false_positives="a schedule of manual vacuums that is not part of the run",
)
def autovacuum_off(s: Situation) -> Found | Cleared:
    """Autovacuum off: dead rows are never removed, and transaction IDs are frozen only in an
    emergency.

    Trigger: autovacuum or track_counts is off, or the option autovacuum_enabled of a table is, and
    at least ``DEAD_ROWS_MIN`` rows were updated or deleted there.

    Thresholds: none; a setting is certain. What it costs now is measured (see ``_bloat``). Even
    where autovacuum is off, PostgreSQL vacuums tables to prevent wraparound of transaction IDs.
    """
    autovacuum = Autovacuum(s)
    tables = [t.relation for t in autovacuum.tables if not t.enabled and t.made_dead > 0]
    what = _what(autovacuum.off, tables)
    if what is None:
        return Cleared("autovacuum is on", [s.evidence("autovacuum", "on", "", "off")])
    seen = bloat(s)
    evidence = [s.evidence("off", what, ""), *bloat_evidence(s, seen)]
    if seen.rows_dead < DEAD_ROWS_MIN:
        return Cleared(f"{what} is off, and few rows become dead", evidence)
    share = 0.0 if held_back(s) else seen.share
    return Found(
        sentence=(
            f"{what} is off: {figure(seen.rows_dead_s)} rows/s become dead, and nothing removes"
            f" them{cost_in_words(seen) if share else ''}"
        ),
        parts=seen.parts if share else (),
        share=share,
        removable_share=AUTOVACUUM_OFF_LIFTABLE,
        confidence=0.95,
        evidence=evidence,
        proposals=_autovacuum_off_proposals(autovacuum.off, share, seen),
        advice="" if not tables else _reset_options(tables),
    )


def _what(setting: str | None, tables: list[str]) -> str | None:
    if setting is not None:
        return setting
    return f"autovacuum of {', '.join(tables[:3])}" if tables else None


def _autovacuum_off_proposals(setting: str | None, share: float, seen: Bloat) -> list[Proposal]:
    ratio = 1.0 / (1.0 - min(0.9, share * AUTOVACUUM_OFF_LIFTABLE))
    if setting != "autovacuum" or ratio < WORTHWHILE_RATIO:
        return []
    change = Change(settings={setting: DEFAULTS[setting]})
    why = f"vacuum would remove the {figure(seen.rows_dead_s)} rows/s that become dead"
    return [
        Proposal(
            remedy_id="reset-setting", change=change, predicted_ratio=ratio, why=why, specific=True
        )
    ]


def _reset_options(tables: list[str]) -> str:
    return "; ".join(
        f"ALTER TABLE {relation(table)} RESET (autovacuum_enabled)" for table in tables[:3]
    )


ASLEEP_SHARE = 0.5
BUSY_SHARE = 0.9
AUTOVACUUM_SLOW_LIFTABLE = 0.8
_DELAY = "autovacuum_vacuum_cost_delay"
_LIMIT = "autovacuum_vacuum_cost_limit"
_LIMIT_FACTOR = 10
_LIMIT_MAX = 10_000


@rule(
    "autovacuum-slow",
    false_positives=(
        "a table whose first vacuum is a large one and ends soon; statistics that were just reset"
    ),
)
def autovacuum_slow(s: Situation) -> Found | Cleared:
    """Autovacuum too slow: tables have more dead rows than its threshold, and it does not catch up.

    Trigger: a table has been above its threshold for ``NAPTIMES`` times autovacuum_naptime, and at
    least ``OVERDUE_S_MIN``, up to the end of the period, has ``TIMES`` as many dead rows then, and
    the workers are the reason: they are asleep for their cost delay for at least ``ASLEEP_SHARE``
    of their time, or all of them are at work.

    Thresholds: autovacuum looks at a database once per naptime, so a table that is due is vacuumed
    within one, if a worker is free; db-triage alarms at twice the threshold, and where all workers
    are at work and 20 tables are overdue. The share asleep is calibrated by injection: a cost delay
    of 100 ms put workers to sleep for 99 % of their time, the defaults on small tables for 10 %.

    Look-alikes: where an old xmin is held, vacuums end and leave the rows ("xmin-pinned"); where
    others hold the lock that they need, or want it, they do not end ("autovacuum-blocked"); where
    the threshold itself is high, no table is overdue ("autovacuum-threshold"); vacuums that are too
    fast cost throughput while they run ("vacuum-load"). From version 18 pg_stat_progress_vacuum has
    the time slept, with track_cost_delay_timing.
    """
    autovacuum = Autovacuum(s)
    patience_s = autovacuum.patience_s
    worst = max(autovacuum.tables, key=lambda table: (table.piled_up, table.overdue_s))
    evidence = _autovacuum_slow_evidence(s, autovacuum, worst)
    if autovacuum.off is not None:
        return Cleared("autovacuum is off", evidence)
    if worst.overdue_s < patience_s or not worst.piled_up:
        if s.seconds < patience_s:
            raise Skip(
                f"the run is shorter than {NAPTIMES} times autovacuum_naptime, {figure(patience_s)}"
                " s, within which a table that is due is vacuumed"
            )
        return Cleared("no table had more dead rows than its threshold for long", evidence)
    reason = _reason(autovacuum)
    is_kept_out = any(each.relation == worst.relation for each in obstacles(s))
    if reason is None or is_kept_out or held_back(s):
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
        removable_share=AUTOVACUUM_SLOW_LIFTABLE,
        confidence=0.8,
        evidence=[*evidence, *bloat_evidence(s, seen)],
        proposals=_autovacuum_slow_proposals(autovacuum, s, seen),
        advice=(
            "raise autovacuum_vacuum_cost_limit, or lower autovacuum_vacuum_cost_delay, for the"
            f" server or with ALTER TABLE {relation(worst.relation)} SET (…); more workers share"
            " one limit and help only with many tables"
        ),
    )


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


def _autovacuum_slow_proposals(autovacuum: Autovacuum, s: Situation, seen: Bloat) -> list[Proposal]:
    """Return the default delay if it is longer, else a higher limit."""
    ratio = 1.0 / (1.0 - min(0.9, seen.share * AUTOVACUUM_SLOW_LIFTABLE))
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


def _autovacuum_slow_evidence(
    s: Situation, autovacuum: Autovacuum, worst: Upkeep
) -> list[Evidence]:
    return [
        s.evidence("table that was due for the longest time", worst.relation, ""),
        s.evidence("due for", worst.overdue_s, "s",
                   f"at least {NAPTIMES} times autovacuum_naptime, and {OVERDUE_S_MIN:g} s"),
        s.evidence("its dead rows", worst.dead, "rows", f"at least {TIMES} times the threshold"),
        s.evidence("threshold of autovacuum", worst.due_rows, "rows"),
        s.evidence("autovacuums of it that ended", worst.vacuums, "count"),
        s.evidence("autovacuum workers", autovacuum.workers, "count"),
        s.evidence(
            "workers asleep for the cost delay", autovacuum.asleep_share, "share",
            f"at least {percent(ASLEEP_SHARE)}",
        ),
    ]  # fmt: skip


DEAD_ROWS_MAX = 100_000_000
DUE_S = 2 * 3600.0
SHARE_MIN = 0.1
DEAD_PART_MIN = 0.5
"""Fewer dead rows than this part of the rows do not make the pages grow as ``_bloat`` asks."""
AUTOVACUUM_THRESHOLD_LIFTABLE = 0.6
_PROPOSED_MIN = 1000


@rule(
    "autovacuum-threshold",
    false_positives=(
        "a burst of updates that ends; page accesses that grow because the tables do, or because"
        " other rows are asked for"
    ),
)
def autovacuum_threshold(s: Situation) -> Found | Cleared:
    """Threshold of autovacuum too high: a share of a large table's rows must be dead before it
    comes.

    Trigger: the table with the most rows made dead is not due, and either transactions access ever
    more pages while its dead rows grow (at least ``SHARE_MIN`` of the response time, see
    ``_bloat``, and ``DEAD_PART_MIN`` of its rows), or its threshold is at least ``DEAD_ROWS_MAX``
    and at this rate it is due in more than ``DUE_S``.

    Thresholds: version 18 limits the threshold of every table to 100 million rows by default
    (autovacuum_vacuum_max_threshold); one vacuum per table in about two hours is the aim of
    Senzing's experiments. The default of 0.2 times the rows means that a table of a billion rows
    has 200 million dead ones before anything is done.

    Look-alikes: tables that are due and not vacuumed ("autovacuum-slow"), an old xmin
    ("xmin-pinned").
    """
    autovacuum = Autovacuum(s)
    table = max(autovacuum.tables, key=lambda each: (each.made_dead, each.due_in_s == 0.0))
    evidence = _autovacuum_threshold_evidence(s, table)
    if autovacuum.off is not None or not table.enabled:
        return Cleared("autovacuum is off", evidence)
    if table.made_dead < DEAD_ROWS_MIN:
        return Cleared("few rows become dead", evidence)
    due = _due_in_words(table)
    sentence = f"{table.relation} is vacuumed at {figure(table.due_rows)} dead rows, {due}"
    seen = bloat(s)
    evidence += bloat_evidence(s, seen)
    if table.due_in_s == 0.0 or held_back(s):
        return Cleared(sentence, evidence)
    far = table.due_in_s is None or table.due_in_s > DUE_S
    costs = seen.share >= SHARE_MIN and table.dead >= DEAD_PART_MIN * table.rows
    if not costs and not (far and table.due_rows >= DEAD_ROWS_MAX):
        return Cleared(sentence, evidence)
    return Found(
        sentence=f"{sentence}{cost_in_words(seen)}",
        parts=seen.parts,
        share=seen.share,
        removable_share=AUTOVACUUM_THRESHOLD_LIFTABLE,
        confidence=0.6 if costs else 0.8,
        evidence=evidence,
        proposals=_autovacuum_threshold_proposals(table, seen.share),
        advice=_advice(table),
    )


def _due_in_words(table: Upkeep) -> str:
    if table.due_in_s is None:
        return "of which it has no more than before"
    if table.due_in_s == 0.0:
        return "which it has"
    return f"which it has in {duration(table.due_in_s)} at {figure(table.dead_s)} rows/s"


def _rows_in_two_hours(table: Upkeep) -> int:
    return max(_PROPOSED_MIN, round(min(table.dead_s * DUE_S, table.due_rows / 10)))


def _autovacuum_threshold_options(table: Upkeep) -> dict[str, str]:
    """Return a threshold in rows: at most those of two hours, and a tenth of today's."""
    return {
        "autovacuum_vacuum_scale_factor": "0",
        "autovacuum_vacuum_threshold": f"{_rows_in_two_hours(table)}",
    }


def _autovacuum_threshold_proposals(table: Upkeep, share: float) -> list[Proposal]:
    ratio = 1.0 / (1.0 - min(0.9, share * AUTOVACUUM_THRESHOLD_LIFTABLE))
    if ratio < WORTHWHILE_RATIO:
        return []
    change = Change(table_options={table.relation: _autovacuum_threshold_options(table)})
    why = f"it would be vacuumed at {figure(_rows_in_two_hours(table))} dead rows"
    return [
        Proposal(remedy_id="autovacuum-threshold", change=change, predicted_ratio=ratio, why=why)
    ]


def _advice(table: Upkeep) -> str:
    options = ", ".join(
        f"{name} = {value}" for name, value in _autovacuum_threshold_options(table).items()
    )
    return f"ALTER TABLE {relation(table.relation)} SET ({options})"


def _autovacuum_threshold_evidence(s: Situation, table: Upkeep) -> list[Evidence]:
    return [
        s.evidence("table with the most rows made dead", table.relation, ""),
        s.evidence("its rows", table.rows, "rows"),
        s.evidence("its dead rows", table.dead, "rows"),
        s.evidence("growth of its dead rows", table.dead_s, "rows/s"),
        s.evidence("threshold of autovacuum", table.due_rows, "rows",
                   f"at least {DEAD_ROWS_MAX:,}, and not soon; or they cost time"),
        s.evidence("due at this rate in", table.due_in_s, "s"),
    ]  # fmt: skip


DUE_DEAD_ROWS_MIN = 10_000
OVERDUE = 2.0
WAITED_S = 3600.0
_OFF = ("off", "false", "no", "0")


@rule(
    "autovacuum-behind",
    looks=("server", "setting", "table"),
    covered_by=("autovacuum-off", "autovacuum-slow", "autovacuum-threshold", "xmin-pinned"),
    false_positives="a vacuum of these tables that is under way; rows that an old snapshot needs",
)
def autovacuum_behind(sight: Sight) -> Found | Cleared:
    """Autovacuum does not keep up: tables have more dead rows than it should let them have.

    Trigger: a table with at least ``DUE_DEAD_ROWS_MIN`` dead rows and ``OVERDUE``
    times as many as make autovacuum come, whose last vacuum, and the beginning of the statistics,
    are more than ``WAITED_S`` ago. The number that makes it come is autovacuum_vacuum_threshold
    plus autovacuum_vacuum_scale_factor of the rows, of the table's own options where it has them,
    and from version 18 no more than autovacuum_vacuum_max_threshold.

    Thresholds: db-triage alarms at twice the trigger; an hour is sixty times the default of
    autovacuum_naptime. Tables without autovacuum are the rule on that.
    """
    overdue = [row for row in sight.rows("table") if _is_overdue(sight, row)]
    overdue.sort(key=lambda row: -row["n_dead"])
    if not overdue:
        return Cleared("no table has been overdue for vacuum for an hour")
    worst = overdue[0]
    bar = f"at least {OVERDUE:g} times the trigger and {DUE_DEAD_ROWS_MIN:,}"
    evidence = []
    for row in overdue[:5]:
        evidence += [
            measured(f"dead rows of {row['relation']}", row["n_dead"], "count", bar),
            measured("rows that make autovacuum come", _trigger(sight, row), "count"),
            measured(
                "last vacuum before", row["vacuumed_s"], "s", f"more than {duration(WAITED_S)}"
            ),
        ]
    evidence += [
        measured(name, sight.setting(name).value, sight.setting(name).unit)
        for name in ("autovacuum_max_workers", "autovacuum_vacuum_cost_limit",
                     "autovacuum_vacuum_cost_delay")
        if sight.knows(name)
    ]  # fmt: skip
    return Found(
        sentence=(
            f"autovacuum does not keep up with {listed([row['relation'] for row in overdue])}:"
            f" {figure(worst['n_dead'])} dead rows, {_vacuumed(worst)}"
        ),
        severity="costs",
        confidence=0.7,
        evidence=evidence,
        advice=(
            "see first what holds it back: old transactions, slots, prepared transactions; then"
            " raise autovacuum_vacuum_cost_limit, which all workers share, or"
            " autovacuum_max_workers"
        ),
        commands=[f"VACUUM (VERBOSE) {row['relation']}" for row in overdue[:5]],
    )


def _is_overdue(sight: Sight, row: Row) -> bool:
    options = _autovacuum_behind_options(row)
    if options.get("autovacuum_enabled", "on").lower() in _OFF:
        return False
    began_s = sight.row("server")["counters_s"]
    waited_s = row["vacuumed_s"] if row["vacuumed_s"] is not None else began_s
    long_ago = waited_s is None or waited_s >= WAITED_S
    many = row["n_dead"] >= max(DUE_DEAD_ROWS_MIN, OVERDUE * _trigger(sight, row))
    return bool(long_ago and many)


def _trigger(sight: Sight, row: Row) -> float:
    """Return the dead rows beyond which autovacuum comes."""
    options = _autovacuum_behind_options(row)

    def value(name: str) -> float:
        return float(options.get(name) or sight.setting(name).value)

    least = value("autovacuum_vacuum_threshold")
    trigger = least + value("autovacuum_vacuum_scale_factor") * max(float(row["rows"]), 0.0)
    name = "autovacuum_vacuum_max_threshold"
    most = value(name) if name in options or sight.knows(name) else -1.0
    return min(trigger, most) if most >= 0 else trigger


def _autovacuum_behind_options(row: Row) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in (row["options"] or "").split())
    return {name: value for name, _, value in pairs}


def _vacuumed(row: Row) -> str:
    if row["vacuumed_s"] is None:
        return "and no vacuum since the statistics began"
    return f"and the last vacuum {duration(row['vacuumed_s'])} ago"


NO_AUTOVACUUM_DEAD_ROWS_MIN = 1000
_SETTINGS = ("autovacuum", "track_counts")


@rule(
    "no-autovacuum",
    looks=("setting", "autovacuum_off"),
    covered_by=("autovacuum-off",),
    false_positives="a schedule of manual vacuums; a load of data that turns it on when it ends",
)
def no_autovacuum(sight: Sight) -> Found | Cleared:
    """Autovacuum off: for the server, or for tables that are written.

    Trigger: autovacuum or track_counts is off; or the option autovacuum_enabled of a table is, with
    at least ``NO_AUTOVACUUM_DEAD_ROWS_MIN`` dead rows in it. track_counts off makes autovacuum = on
    have no effect.

    Thresholds: a setting is certain. Of a table, PostgreSQL's own default would be a vacuum after
    50 dead rows and a fifth of the table; fewer than this cost nothing that one could see.
    """
    off = [name for name in _SETTINGS if not sight.setting(name).is_on]
    tables = [
        row for row in sight.rows("autovacuum_off") if row["n_dead"] >= NO_AUTOVACUUM_DEAD_ROWS_MIN
    ]
    evidence = [measured(name, sight.setting(name).value, "", "off") for name in _SETTINGS]
    evidence += [
        measured(f"dead rows of {row['relation']}", row["n_dead"], "count",
                 f"at least {NO_AUTOVACUUM_DEAD_ROWS_MIN:,}")
        for row in tables[:5]
    ]  # fmt: skip
    if off:
        return Found(
            sentence=(
                f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: tables are vacuumed"
                " only to prevent wraparound of transaction IDs, and grow until then"
            ),
            severity="costs",
            confidence=0.95,
            evidence=evidence,
            commands=alter_system(dict.fromkeys(off, "on")),
            proposals=[
                proposed("reset-setting", "dead rows would be removed", {name: "on"}, guards=True)
                for name in off
                if name in DEFAULTS
            ],
        )
    if not tables:
        return Cleared("autovacuum is on for all tables with dead rows", evidence)
    dead = sum(row["n_dead"] for row in tables)
    names = [row["relation"] for row in tables]
    return Found(
        sentence=(
            f"autovacuum is off for {listed(names)}, with {figure(dead)} dead rows that nothing"
            " removes"
        ),
        severity="costs",
        confidence=0.9,
        evidence=evidence,
        commands=[f"ALTER TABLE {name} RESET (autovacuum_enabled)" for name in names],
    )
