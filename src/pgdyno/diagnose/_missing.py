"""Sentences about what a latency budget lacks: what was not recorded or cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.facts.situation import Situation
from pgdyno.facts.slices import CLIENT_BACKEND
from pgdyno.facts.statement_times import has_pipeline
from pgdyno.record.finding import Skip

SAMPLED_MIN = 30
"""Sightings of sessions at work below which shares are rough: 30 give 15 % ± 13 % (95 %,
binomial)."""


def missing_words(s: Situation) -> list[str]:
    """Return the sentences, without periods; the last one is true of every budget."""
    return list(_missing(s))


def _missing(s: Situation) -> Iterator[str]:
    yield from _of_samples(s)
    if s.cpu_if_recorded is None:
        yield "the server's machine was not observed: sessions seen running stand in for CPU time"
    elif s.process_cores(CLIENT_BACKEND) is None:
        yield (
            "CPU time of the server's processes was not recorded: time on a core and in the queue"
            " for one are not distinguished"
        )
    if not s.statements:
        yield "the times of statements were not recorded"
    elif s.overlapping_groups or s.between_statements_ms is None:
        together = (
            "statements of a pipeline are answered together: none has a time of its own, and "
        )
        pipeline = has_pipeline(s.run.run.spec)
        yield f"{together if pipeline else ''}pauses of the client between statements are not known"
    server = s.run.run.server
    if s.is_pooled:
        yield (
            "a pooler stands between clients and server: its queue is part of network and messages"
        )
    if note := server.get("note"):
        yield f"{note}; wait events that pgdyno does not know are counted by their type"
    yield "parsing and planning are part of the CPU time"


def _of_samples(s: Situation) -> Iterator[str]:
    try:
        seen = s.sessions_at_work * s.samplings
    except Skip as reason:
        yield f"what sessions did is not known: {reason}"
        return
    if not s.sessions_were_sampled:
        yield (
            "no sample shows the state of a session of the load: none was connected, or the states"
            " are hidden (grant pg_monitor)"
        )
    elif seen <= 0:
        yield f"no session was seen at work in {s.samplings} samples: its waits are too short"
    elif seen < SAMPLED_MIN:
        yield f"sessions at work were seen {seen:.0f} times only: shares of waits are rough"
    elif not any(wait.statement for wait in s.waits):
        yield "the server's samples have no texts of statements (grant pg_monitor)"
