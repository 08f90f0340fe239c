"""Autovacuum off: for the server, or for tables that are written.

Trigger: autovacuum or track_counts is off; or the option autovacuum_enabled of a table is, with at
least ``DEAD_ROWS_MIN`` dead rows in it. track_counts off makes autovacuum = on have no effect.

Thresholds: a setting is certain. Of a table, PostgreSQL's own default would be a vacuum after 50
dead rows and a fifth of the table; fewer than this cost nothing that one could see.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured, proposed
from pgdyno.numbers import figure, listed
from pgdyno.spec.setting_defaults import DEFAULTS

DEAD_ROWS_MIN = 1000
_SETTINGS = ("autovacuum", "track_counts")


def examine(sight: Sight) -> Fault | Fine:
    """Examine the two settings, and the tables with the option."""
    off = [name for name in _SETTINGS if not sight.setting(name).is_on]
    tables = [row for row in sight.rows("autovacuum_off") if row["n_dead"] >= DEAD_ROWS_MIN]
    evidence = [measured(name, sight.setting(name).value, "", "off") for name in _SETTINGS]
    evidence += [
        measured(f"dead rows of {row['relation']}", row["n_dead"], "count",
                 f"at least {DEAD_ROWS_MIN:,}")
        for row in tables[:5]
    ]  # fmt: skip
    if off:
        return Fault(
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
        return Fine("autovacuum is on for all tables with dead rows", evidence)
    dead = sum(row["n_dead"] for row in tables)
    names = [row["relation"] for row in tables]
    return Fault(
        sentence=(
            f"autovacuum is off for {listed(names)}, with {figure(dead)} dead rows that nothing"
            " removes"
        ),
        severity="costs",
        confidence=0.9,
        evidence=evidence,
        commands=[f"ALTER TABLE {name} RESET (autovacuum_enabled)" for name in names],
    )


RULE = Rule(
    id="no-autovacuum",
    looks=("setting", "autovacuum_off"),
    false_positives="a schedule of manual vacuums; a load of data that turns it on when it ends",
    examine=examine,
    covered_by=("autovacuum-off",),
)
