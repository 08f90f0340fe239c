"""Each statement is written to the server's log.

Trigger: log_statement = all or mod, log_min_duration_statement or log_min_duration_sample = 0, or
log_duration on, and at least ``TRANSACTIONS_PER_S_MIN`` transactions a second since the statistics
began. Thresholds: 4 us of CPU time for a line is the calibration of the finding costly-settings,
and below ten lines a second a log stays readable and small: a day is 100 MB. From
``COSTLY_PER_S_MIN`` a second on it takes a hundredth of a core and 25 GB a day.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured, proposed
from pgdyno.numbers import figure, listed
from pgdyno.spec.setting_defaults import DEFAULTS

TRANSACTIONS_PER_S_MIN = 10.0
COSTLY_PER_S_MIN = 2500.0
_EVERYTHING = {
    "log_statement": ("all", "mod"),
    "log_min_duration_statement": ("0",),
    "log_min_duration_sample": ("0",),
    "log_duration": ("on",),
}


def examine(sight: Sight) -> Fault | Fine:
    """Examine the settings, and how much there is to log."""
    logged = [n for n, values in _EVERYTHING.items() if sight.setting(n).value in values]
    transactions = sum(row["transactions"] or 0 for row in sight.rows("database"))
    server = sight.row("server")
    per_s = transactions / max(server["counters_s"] or server["uptime_s"], 1.0)
    evidence = [measured(name, sight.setting(name).value, "") for name in logged]
    bar = f"at least {TRANSACTIONS_PER_S_MIN:g}/s"
    evidence += [measured("transactions", per_s, "count/s", bar)]
    if not logged or per_s < TRANSACTIONS_PER_S_MIN:
        return Fine("the log does not get a line for each of many statements", evidence)
    return Fault(
        sentence=(
            f"{listed([f'{name} = {sight.setting(name).value}' for name in logged])}: each"
            " statement"
            f" of {figure(per_s)} transactions per second is written to the log"
        ),
        severity="costs" if per_s >= COSTLY_PER_S_MIN else "minor",
        confidence=0.8,
        evidence=evidence,
        commands=alter_system({name: DEFAULTS[name] for name in logged}),
        proposals=[
            proposed("reset-setting", "no line for each statement", {name: DEFAULTS[name]})
            for name in logged
        ],
    )


RULE = Rule(
    id="logging-everything",
    looks=("server", "setting", "database"),
    false_positives="a log that an audit demands, or that somebody turned on for an hour",
    examine=examine,
    covered_by=("costly-settings",),
)
