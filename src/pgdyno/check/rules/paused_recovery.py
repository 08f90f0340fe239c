"""A standby that does not replay: recovery is paused.

Trigger: pg_get_wal_replay_pause_state() is not "not paused". Threshold: none. WAL piles up on it,
and its data stays as old as it is.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import size


def examine(sight: Sight) -> Fault | Fine:
    """Examine the standby's own recovery."""
    rows = sight.rows("recovery")
    if not rows:
        return Fine("the server is not a standby")
    (row,) = rows
    waiting = row["waiting_bytes"] or 0.0
    evidence = [
        measured("replay", row["pause_state"], "", "paused"),
        measured("WAL received and not replayed", waiting, "bytes"),
        measured("last transaction replayed before", row["replayed_s"], "s"),
    ]
    if row["pause_state"] == "not paused":
        return Fine("the standby replays", evidence)
    return Fault(
        sentence=f"recovery is paused: {size(waiting)} of WAL wait, and the data stays as it is",
        severity="costs",
        confidence=0.9,
        evidence=evidence,
        commands=["SELECT pg_wal_replay_resume()"],
    )


RULE = Rule(
    id="paused-recovery",
    looks=("recovery",),
    false_positives="somebody who looks at the data as it was at that moment",
    examine=examine,
)
