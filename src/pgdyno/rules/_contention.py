"""Contention for structures in shared memory and for the extension of tables, by class of waits.

These waits are short: a session that waits is soon woken, and then shows its old wait event until
it gets a core. So they are found by the share of the sessions that are seen in them, and what would
be gained without them is for the model to say: on cores that are all busy, little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.facts.denied_time import is_throttled
from pgdyno.facts.situation import Situation
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.rules._client_counts import fewer_advice, fewer_clients
from pgdyno.rules._pools import smaller_pools
from pgdyno.rules._queues import quoted
from pgdyno.rules.rule import Cleared, Found
from pgdyno.stats.prediction import Prediction
from pgdyno.wait_events import DATA, SHARED, DataWait, SharedWait, WaitClass

CONTENDED_SHARE = 0.15
"""Part of the sessions in a transaction that wait for one structure, above which it is contended.
No published tool has one. Calibrated by injection on 2 cores: 0.35 to 0.6 where 32 sessions insert
ascending keys, 0.45 where they extend one table, 0.3 where they lock 180 relations each; below 0.05
with TPC-B, whatever the number of clients."""
CONTENDED_MIN = 0.8
"""Sessions below which such a share is chance."""
QUEUE_PER_CORE = 2.0
BUSY_SHARE = 0.9
SHARED_SHARE = 0.2
"""Thresholds of a crowd: those of the finding on connections (``connections``)."""
_WITH_RULES: tuple[SharedWait, ...] = (
    *("wal insert", "page", "buffer mapping", "subtransactions", "multixact", "lock manager"),
)
"""Classes with rules of their own; the others grow with the number of sessions alone."""


def is_contended(s: Situation, name: WaitClass) -> bool:
    """True if enough sessions wait in this class."""
    return s.sessions(name) >= CONTENDED_MIN and s.part(name) >= CONTENDED_SHARE


def without_rules(s: Situation) -> tuple[SharedWait, ...]:
    """Return the classes of shared memory that no rule of their own has found."""
    return tuple(name for name in SHARED if name not in _WITH_RULES or not is_contended(s, name))


def contention(
    s: Situation,
    name: SharedWait | DataWait,
    what: str,
    *,
    advice: str,
    causes: Iterable[str] = (),
    evidence: Iterable[Evidence] = (),
    proposals: Iterable[Proposal] = (),
) -> Found | Cleared:
    """Return the answer of the rule for one class: sessions that wait for ``what``.

    Fewer sessions are proposed where the model predicts a gain, and fewer clients where they are
    predicted to do as much, besides ``proposals``.
    """
    share, waiting = s.part(name), s.sessions(name)
    statement = next(iter(s.statements_waiting(name)), None)
    shown = [*_evidence(s, name, what, statement), *evidence]
    sentence = f"{figure(waiting)} of {figure(s.sessions_at_work)} sessions wait for {what}"
    if not is_contended(s, name):
        return Cleared(sentence, shown, parts=(name,))
    fewer = fewer_clients(s, waiting, what)
    return Found(
        sentence=f"{sentence}, most with: {quoted(statement)}" if statement else sentence,
        parts=(name,),
        removable_share=without(s, name).lifted,
        confidence=0.9 if share >= 2 * CONTENDED_SHARE else 0.7,
        evidence=shown,
        causes=tuple(causes),
        proposals=[*proposals, *smaller_pools(s), *fewer],
        advice="; ".join(filter(None, (advice, "" if fewer else fewer_advice(s, waiting)))),
    )


def without(s: Situation, name: SharedWait | DataWait, left: float = 0.0) -> Prediction:
    """Return the predicted throughput ratio with the part ``left`` of the waits of this class."""
    removed = s.sessions(name) * (1.0 - left)
    if name in SHARED:
        return s.loop.ratio(shared=1.0 - removed / s.sessions(*SHARED))
    return s.loop.ratio(data=1.0 - removed / s.sessions(*DATA))


def _evidence(
    s: Situation, name: WaitClass, what: str, statement: str | None
) -> Sequence[Evidence]:
    shown = [
        s.evidence(
            f"sessions waiting for {what} / sessions in a transaction",
            s.part(name),
            "share",
            f"at least {percent(CONTENDED_SHARE)}",
        ),
        s.evidence(
            f"sessions waiting for {what}",
            s.sessions(name),
            "sessions",
            f"at least {CONTENDED_MIN:g}",
        ),
    ]
    events = sorted(s.events_of(name).items(), key=lambda item: -item[1])
    shown += [s.evidence(f"sessions at {event}", count, "sessions") for event, count in events[:3]]
    if statement:
        shown.append(s.evidence("waiting statement", statement, ""))
    return shown


def crowded(s: Situation) -> bool:
    """True if more sessions can run than the cores can serve, quotas apart, or they queue for
    shared memory."""
    if is_throttled(s):
        return False
    if s.sessions(*without_rules(s)) >= 1.0 and s.part(*without_rules(s)) >= SHARED_SHARE:
        return True
    busy = s.cpu_if_recorded is None or s.cpu.busy_share >= BUSY_SHARE
    return busy and s.queueing + s.sessions(*without_rules(s)) >= QUEUE_PER_CORE * s.cores


def is_crowd_the_cause(s: Situation) -> bool:
    """True if the number of sessions makes the queue for a core, because fewer of them are
    predicted to do more; else the queue is due to what they do there."""
    between = s.front is not None or s.pooler is not None
    locks = s.part(*without_rules(s)) >= SHARED_SHARE
    return crowded(s) and (between or locks or bool(smaller_pools(s)))
