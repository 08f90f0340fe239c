"""Statements per request: a request sends many statements to the database, one after the other.

Trigger: the requests of a page send at least ``STATEMENTS_MIN`` statements on average, and the
messages between application and database take at least ``SHARE`` of the response time, or of what
is left of it without queues: each statement is a round trip. This is the "N+1" of object-relational
mappers: one statement for a list, and one for each of its items.

Thresholds: 5 statements, from which on tools such as Hibernate's statistics and Sentry call it
N+1; a fifth of the time as for other layers. Calibrated by injection: an order of 28 to 32
statements, and a page of one.
"""

from __future__ import annotations

from pgdyno.diagnose._budget import QUEUES, Part
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.front import PageLoad
from pgdyno.numbers import figure, percent
from pgdyno.wait_events import HEAVYWEIGHT

STATEMENTS_MIN = 5.0
SHARE = 0.2
_PARTS: tuple[Part, ...] = ("between", "client")
_QUEUED: tuple[Part, ...] = (*QUEUES, *HEAVYWEIGHT)
ADVICE = (
    "fetch a list and its items with one statement (a join, = any(array)), write rows in batches"
    " (addBatch with reWriteBatchedInserts=true of pgjdbc, multi-row INSERT), or put the request's"
    " statements into a function"
)


def examine(s: Situation) -> Found | Cleared:
    """Look at the page whose statements are most, and at the time of messages."""
    page = max(s.front_load.pages, key=_sent)
    alone = 1.0 - s.budget.share(*_QUEUED)
    share = s.budget.share(*_PARTS) / alone if alone > 0 else 0.0
    evidence = [
        s.evidence(f"statements per request of {page.path}", page.statements, "count",
                   f"at least {STATEMENTS_MIN:g}"),
        s.evidence("messages to the database / response time without queues", share, "share",
                   f"at least {percent(SHARE)}"),
        s.evidence("time with the database, per request", page.database_ms, "ms"),
    ]  # fmt: skip
    sends = f"a request of {page.path} sends {figure(page.statements)} statements"
    if page.statements < STATEMENTS_MIN or share < SHARE:
        return Cleared(sends, evidence, parts=_PARTS)
    return Found(
        sentence=(
            f"{sends}, one after the other: {percent(share)} of its time, without queues, is"
            " messages between application and database"
        ),
        parts=_PARTS,
        liftable=1.0 - STATEMENTS_MIN / page.statements,
        confidence=0.7,
        evidence=evidence,
        advice=ADVICE,
    )


def _sent(page: PageLoad) -> float:
    return page.requests_s * page.statements


SIGNATURE = Signature(
    id="statements-per-request",
    false_positives="statements that depend on each other's results, which cannot be sent together",
    examine=examine,
    of_clients=True,
)
