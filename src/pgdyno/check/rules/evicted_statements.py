"""pg_stat_statements has no room: it throws out statements again and again.

Trigger: at least once an hour on average, over at least an hour. Each time it sorts all
entries and drops those that are used least (a twentieth), with a lock that all statements wait for.
Threshold: ours; a day of that has replaced all entries at least once. It is minor.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import figure
from pgdyno.record.finding import Skip

EVICTIONS_H_MIN = 1.0


def examine(sight: Sight) -> Fault | Fine:
    """Examine how often entries were thrown out."""
    row = sight.row("statement_info")
    hours = (row["counters_s"] or 0.0) / 3600
    if hours < 1:
        raise Skip("its counters are younger than an hour")
    per_h = row["dealloc"] / hours
    evidence = [measured("evictions", per_h, "count/h", f"at least {EVICTIONS_H_MIN:g}")]
    if per_h < EVICTIONS_H_MIN:
        return Fine("pg_stat_statements has room for the statements", evidence)
    return Fault(
        sentence=(
            f"pg_stat_statements throws out statements {figure(per_h)} times an hour: there are"
            " more"
            f" than pg_stat_statements.max = {sight.setting('pg_stat_statements.max').value}"
        ),
        severity="minor",
        confidence=0.8,
        evidence=evidence,
        advice=(
            "see whether statements differ only in lists of values or names of temporary tables;"
            " raise pg_stat_statements.max (restart) where they do not"
        ),
    )


RULE = Rule(
    id="evicted-statements",
    looks=("setting", "statement_info"),
    false_positives="a burst of different statements that is over",
    examine=examine,
)
