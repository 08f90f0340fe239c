"""The load of others in a few figures, for the result of a check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from pgdyno.facts.observed import ObservedRun
from pgdyno.facts.shapes import same_shape, shape
from pgdyno.facts.slices import Facts
from pgdyno.record import RunFile, StatementCount
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.record.finding import Skip

_ON_CPU = "CPU"
_IDLE = "idle in transaction"


class SeenStatement(Struct, frozen=True):
    """A statement of others, or several of one shape."""

    text: str
    sessions: float | None
    """Average sessions at work on it, its commit included, as sampled; None: not sampled."""
    counted: StatementCount | None
    """None: not counted."""


class SeenLoad(Struct, frozen=True):
    """The load of others over some slices."""

    seconds: float
    """Time over which transactions were counted."""
    transactions_s: float | None
    """None: not counted."""
    sessions: int
    """The most client sessions at one time, in any state, hidden ones included."""
    cores: float | None
    statements: Sequence[SeenStatement]
    """Those in which sessions spend most time first."""
    waits: dict[str, float] | None
    """Wait event → average sessions in a transaction; None: hidden, or not sampled."""


def observed(run: RunFile, slice_ids: list[int]) -> SeenLoad:
    """Return the load of others in ``slice_ids`` of a check."""
    with ObservedRun(run.path) as seen:
        facts = Facts(seen, slice_ids)
        loads = seen.series("metric_load", slice_ids)
        counted = len(loads["at_ms"]) > 1 and facts.run.seconds(slice_ids) > 0
        done = seen.transactions(slice_ids)
        return SeenLoad(
            seconds=seen.seconds(slice_ids),
            transactions_s=done / seen.seconds(slice_ids) if counted else None,
            sessions=int(max(loads["sessions"] + loads["hidden_sessions"], default=0)),
            cores=_cores(facts),
            statements=_statements(facts),
            waits=_waits(facts),
        )


def _statements(facts: Facts) -> list[SeenStatement]:
    """Return the statements that were sampled or counted, matched by shape."""
    sampled: dict[str, float] = defaultdict(float)
    texts: dict[str, str] = {}
    try:
        waits = facts.waits
    except Skip:
        waits = []
    for wait in waits:
        if wait.backend_type == CLIENT_BACKEND and wait.statement:
            sampled[shape(wait.statement)] += wait.average
            texts.setdefault(shape(wait.statement), wait.statement)
    found = []
    for each in facts.run.statement_counts(facts.slice_ids):
        mine = [key for key in sampled if same_shape(shape(each.statement), key)]
        seen = sum(sampled.pop(key) for key in mine)
        found.append(SeenStatement(each.statement, seen if waits else None, each))
    found += [SeenStatement(texts[key], seen, None) for key, seen in sampled.items()]
    return sorted(found, key=_time, reverse=True)


def _time(each: SeenStatement) -> tuple[float, float]:
    return each.sessions or 0.0, each.counted.exec_ms if each.counted else 0.0


def _cores(facts: Facts) -> float | None:
    try:
        return facts.cores
    except Skip:
        return None


def _waits(facts: Facts) -> dict[str, float] | None:
    try:
        by_event = facts.by_event
    except Skip:
        return None
    found: dict[str, float] = {}
    for (kind, event), average in by_event.items():
        name = f"{kind}:{event}" if kind else _ON_CPU
        name = _IDLE if name == "Client:ClientRead" else name
        found[name] = found.get(name, 0.0) + average
    return found
