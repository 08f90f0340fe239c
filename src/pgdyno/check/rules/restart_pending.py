"""Settings in the configuration files that wait for a restart.

Trigger: pg_settings.pending_restart. Threshold: none. It is minor, and easily forgotten: the next
restart, which may be a crash at night, starts another server than the one that was tested.

A setting from the server's command line stays as it is, whatever the files say: pg_settings calls
it pending nevertheless, once they were read again.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import listed


def examine(sight: Sight) -> Fault | Fine:
    """Examine which settings wait."""
    pending = [
        setting
        for setting in sight.settings
        if setting.pending and setting.source != "command line"
    ]
    evidence = [measured(f"{each.name} until then", each.value, each.unit) for each in pending]
    if not pending:
        return Fine("no setting waits for a restart")
    return Fault(
        sentence=f"{listed([each.name for each in pending])} will change at the next restart",
        severity="minor",
        confidence=0.95,
        evidence=evidence,
        advice="restart the server when it suits, or take the change out of the configuration",
    )


RULE = Rule(
    id="restart-pending",
    looks=("setting",),
    false_positives="a restart that is planned",
    examine=examine,
)
