"""Tables and indexes that may cost more than they need, and the time of the load's statements
without that."""

from __future__ import annotations

from pgdyno.facts.plans import TimedChange, timed_changes
from pgdyno.facts.situation import Situation
from pgdyno.record import Suspect, Suspicion


def timed_suspects(s: Situation, suspicion: Suspicion) -> list[tuple[TimedChange, list[Suspect]]]:
    """Return the trials against what is suspected of this, each with what it is against, those that
    save most first."""
    made: dict[str, list[Suspect]] = {}
    for each in s.run.suspects(s.slice_ids):
        if each.suspicion is suspicion:
            made.setdefault(each.make, []).append(each)
    tried = [(each, each.change.sql.get("make", ())) for each in timed_changes(s)]
    return [(each, made[make[0]]) for each, make in tried if make and make[0] in made]
