"""Tables and indexes that may cost more than they need, and the time of the load's statements
without that."""

from __future__ import annotations

from pgdyno.facts.plans import TimedChange, trials_of_sql
from pgdyno.facts.situation import Situation
from pgdyno.record import Suspect, Suspicion


def suspected(s: Situation, suspicion: Suspicion) -> list[Suspect]:
    """Return what is suspected of this."""
    return [each for each in s.run.suspects(s.slice_ids) if each.suspicion is suspicion]


def timed_suspects(s: Situation, suspicion: Suspicion) -> list[tuple[TimedChange, list[Suspect]]]:
    """Return the trials against what is suspected of this, each with what it is against, those that
    save most first."""
    made: dict[tuple[str, ...], list[Suspect]] = {}
    for each in suspected(s, suspicion):
        made.setdefault((each.make,), []).append(each)
    return trials_of_sql(s, made)
