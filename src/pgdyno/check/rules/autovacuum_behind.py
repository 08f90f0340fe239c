"""Autovacuum does not keep up: tables have more dead rows than it should let them have.

Trigger: a table with at least ``DEAD_ROWS_MIN`` dead rows and ``OVERDUE`` times as many as make
autovacuum come, whose last vacuum, and the beginning of the statistics, are more than ``WAITED_S``
ago. The number that makes it come is autovacuum_vacuum_threshold plus
autovacuum_vacuum_scale_factor of the rows, of the table's own options where it has them, and from
version 18 no more than autovacuum_vacuum_max_threshold.

Thresholds: db-triage alarms at twice the trigger; an hour is sixty times the default of
autovacuum_naptime. Tables without autovacuum are the rule on that.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import duration, figure, listed
from pgdyno.shapes import Row

DEAD_ROWS_MIN = 10_000
OVERDUE = 2.0
WAITED_S = 3600.0
_OFF = ("off", "false", "no", "0")


def examine(sight: Sight) -> Fault | Fine:
    """Compare the dead rows of each table with the number that makes autovacuum come."""
    overdue = [row for row in sight.rows("table") if _is_overdue(sight, row)]
    overdue.sort(key=lambda row: -row["n_dead"])
    if not overdue:
        return Fine("no table has been overdue for vacuum for an hour")
    worst = overdue[0]
    bar = f"at least {OVERDUE:g} times the trigger and {DEAD_ROWS_MIN:,}"
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
    return Fault(
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
    options = _options(row)
    if options.get("autovacuum_enabled", "on").lower() in _OFF:
        return False
    began_s = sight.row("server")["counters_s"]
    waited_s = row["vacuumed_s"] if row["vacuumed_s"] is not None else began_s
    long_ago = waited_s is None or waited_s >= WAITED_S
    many = row["n_dead"] >= max(DEAD_ROWS_MIN, OVERDUE * _trigger(sight, row))
    return bool(long_ago and many)


def _trigger(sight: Sight, row: Row) -> float:
    """Return the dead rows beyond which autovacuum comes."""
    options = _options(row)

    def value(name: str) -> float:
        return float(options.get(name) or sight.setting(name).value)

    least = value("autovacuum_vacuum_threshold")
    trigger = least + value("autovacuum_vacuum_scale_factor") * max(float(row["rows"]), 0.0)
    name = "autovacuum_vacuum_max_threshold"
    most = value(name) if name in options or sight.knows(name) else -1.0
    return min(trigger, most) if most >= 0 else trigger


def _options(row: Row) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in (row["options"] or "").split())
    return {name: value for name, _, value in pairs}


def _vacuumed(row: Row) -> str:
    if row["vacuumed_s"] is None:
        return "and no vacuum since the statistics began"
    return f"and the last vacuum {duration(row['vacuumed_s'])} ago"


RULE = Rule(
    id="autovacuum-behind",
    looks=("server", "setting", "table"),
    false_positives="a vacuum of these tables that is under way; rows that an old snapshot needs",
    examine=examine,
    covered_by=("autovacuum-off", "autovacuum-slow", "autovacuum-threshold", "xmin-pinned"),
)
