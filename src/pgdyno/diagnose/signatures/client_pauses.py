r"""Client pauses: clients do something else between the statements of a transaction.

Trigger: by the clients' own clocks, between an answer and the next statement, pauses within
transactions take at least ``PAUSE_SHARE`` of the response time, and at least ``THINK_MS`` each
transaction unless the script asks for them (``\sleep``). Where others wait for the connections that
are held meanwhile, ``idle_in_transaction`` explains the same time, and this one is cleared.

Distinct from round trips, which lie between a statement and its answer.

Threshold: 15 %, the smallest part of the response time that needs an explanation; confirmed by
injection, transactions that sleep for 10 ms between two statements (15 of 18 ms).
"""

from __future__ import annotations

from pgdyno.diagnose._queues import THINK_MS
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.pauses import asked_of
from pgdyno.diagnose.signatures.idle_in_transaction import holds_connections
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Skip

PAUSE_SHARE = 0.15
ADVICE = (
    "do what the client does between these statements before the transaction begins, or after it"
    " has ended; more clients at the same time overlap their pauses"
)


def examine(s: Situation) -> Found | Cleared:
    """Examine the time for which sessions in a transaction wait for their client."""
    paused_ms = s.between_statements_ms
    if paused_ms is None:
        raise Skip("no statement was timed")
    inside_ms = s.budget.parts_ms.get("client", 0.0)
    share = s.budget.share("client")
    evidence = _evidence(s, inside_ms, share)
    sentence = (
        f"clients pause for {figure(inside_ms)} of {figure(s.budget.response_ms)} ms between the"
        " statements of a transaction"
    )
    if holds_connections(s):
        return Cleared(f"{sentence}, and hold connections (see idle-in-transaction)", evidence)
    asked = asked_of(s)
    if share < PAUSE_SHARE or (paused_ms < THINK_MS and not asked):
        return Cleared(sentence, evidence, parts=("client",))
    script = ", as the script asks" if asked else ""
    return Found(
        sentence=f"{sentence}{script}: the server waits for them",
        parts=("client",),
        liftable=1.0,
        confidence=0.9,
        evidence=evidence,
        advice=ADVICE,
    )


def _evidence(s: Situation, inside_ms: float, share: float) -> list[Evidence]:
    bar = f"at least {percent(PAUSE_SHARE)}"
    return [
        s.evidence("pauses within transactions / response time", share, "share", bar),
        s.evidence("pauses within a transaction", inside_ms, "ms"),
        s.evidence(
            "client's own time between statements",
            s.between_statements_ms,
            "ms",
            f"at least {THINK_MS:g} ms, unless the script asks for it",
        ),
        s.evidence("the script asks for pauses of", asked_of(s), "ms"),
        s.evidence("sessions waiting for their client", s.sessions("client"), "sessions"),
    ]


SIGNATURE = Signature(
    id="client-pauses",
    false_positives="a load generator so late that it does not read answers in time",
    examine=examine,
    of_clients=True,
)
