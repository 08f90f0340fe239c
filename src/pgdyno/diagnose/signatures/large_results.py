"""Large results: sessions wait for their clients to take what the server sends.

Trigger: sessions wait to send (``Client:ClientWrite``) for at least ``TRANSFER_SHARE`` of the
response time. The server sends ahead what the buffers of the sockets hold, so that only results
larger than these, or clients that read slowly, make it wait.

Distinct from round trips, in which the server has sent its answer and waits for the next statement
(``round_trips``); from a queue for a core on the clients' machine, which the latency budget counts
as that where it is the server's too.

Threshold: that of round trips; calibrated by injection, a result of 10 MB over the loopback (60 %
of the working sessions waited to send) against results of one row (none).
"""

from __future__ import annotations

from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.sessions import transfer_ms
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence

TRANSFER_SHARE = 0.2
ADVICE = (
    "ask for fewer rows and columns, or do in the server what the client does with them; a faster"
    " network between client and server, or clients on more cores, take large results sooner"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare the time in which sessions wait to send with the response time."""
    s.waits  # noqa: B018 - raises Skip if the sessions were not sampled
    part = _part_of_sending(s)
    sending_ms = min(transfer_ms(s), s.budget.parts_ms.get(part, 0.0))
    share = sending_ms / s.budget.response_ms if sending_ms else 0.0
    evidence = [
        s.evidence(
            "waiting to send / response time", share, "share", f"at least {percent(TRANSFER_SHARE)}"
        ),
        s.evidence("waiting to send", transfer_ms(s), "ms"),
        *_generator_evidence(s),
    ]
    of = f"{figure(sending_ms)} of {figure(s.budget.response_ms)} ms"
    if share < TRANSFER_SHARE:
        return Cleared(f"sessions wait {of} to send results", evidence)
    return Found(
        sentence=f"sessions wait {of} for their clients to take large results",
        parts=(part,),
        share=share if s.is_observed else None,
        liftable=share,
        confidence=0.8,
        evidence=evidence,
        advice=ADVICE,
    )


def _part_of_sending(s: Situation) -> Part:
    """Return the part of the latency budget that the wait to send is in. Where no client timed its
    statements, all of a session's wait for its client is one part."""
    return "client" if s.is_observed else "between"


def _generator_evidence(s: Situation) -> list[Evidence]:
    """Return what pgdyno's own clients take to read the answers; none where others are the load."""
    if s.is_observed:
        return []
    generator_ms = 1000 * s.generator_cores / s.throughput_tps
    return [s.evidence("load generator's CPU per transaction", generator_ms, "ms")]


SIGNATURE = Signature(
    id="large-results",
    false_positives=(
        "a load generator that is late to read answers because it has no core; COPY to the client,"
        " whose purpose is a large result"
    ),
    examine=examine,
)
