"""Round trips: the time of a transaction goes into messages between client and server.

Trigger: a round trip takes at least ``ROUND_TRIP_MS_MIN``, and the round trips of a transaction at
least ``TRIPS_SHARE`` of its response time without queues: who waits for a row waits for the round
trips of its holder. They are no more than the time in which no session of
the server was at work and the client was not busy itself: an answer that the client has not asked
for yet (``\\sleep`` inside a transaction) is no round trip, and neither is time in the server.
The transfer of a large result is none either (``large_results``).

Distinct from a pooler's queue by the sessions on the server (see ``pooler``), and from
idle transactions by the clients' own clocks: those lie between an answer and the next statement.

Thresholds: pg_gather reports a network delay above 20 % of the activity. A round trip within a
rack, with the work of both ends, takes up to 0.2 ms. Confirmed by injection: a relay that delays
each direction by 2.5 ms (5.6 ms found on a busy machine), and Unix sockets (0.01 to 0.04 ms),
over which a round trip is never as long.
"""

from __future__ import annotations

from msgspec.structs import replace

from pgdyno.diagnose._budget import QUEUES, Part
from pgdyno.diagnose._more_clients import more_clients
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.sessions import RoundTrips, round_trips, sessions, transfer_ms
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.wait_events import HEAVYWEIGHT

TRIPS_SHARE = 0.2
ROUND_TRIP_MS_MIN = 0.2
_QUEUES: tuple[Part, ...] = (*QUEUES, *HEAVYWEIGHT)
ADVICE = (
    "run the clients nearer to the server; send the statements of a transaction in a pipeline"
    " (\\startpipeline in scripts, pipeline mode in libpq and its drivers), or put them into fewer"
    " statements or a function; more clients at the same time overlap their round trips"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare the round trips of a transaction with its response time."""
    trips = round_trips(s)
    spent_ms = min(trips.total_ms, _outside_server_ms(s))
    own_ms = s.budget.response_ms * (1.0 - s.budget.share(*_QUEUES))
    share = spent_ms / own_ms if own_ms > 0 else 0.0
    evidence = _evidence(s, trips, spent_ms, share)
    number = round(trips.per_transaction, 1)
    words = f"{counted(number, 'round trip', 'round trips')} of {figure(trips.ms_max)} ms"
    if share < TRIPS_SHARE or trips.ms_max < ROUND_TRIP_MS_MIN:
        return Cleared(f"a transaction has {words} at most", evidence, parts=("between",))
    if transfer_ms(s) > spent_ms:
        return Cleared("the time is that of large results, not of round trips", evidence)
    return Found(
        sentence=(
            f"a transaction spends {figure(spent_ms)} of {figure(s.budget.response_ms)} ms in"
            f" {words} between client and server"
        ),
        share=spent_ms / s.budget.response_ms,
        parts=("between",),
        liftable=1.0,
        confidence=0.9 if trips.per_transaction > 1.5 else 0.7,
        evidence=evidence,
        proposals=more_clients(s),
        advice=ADVICE,
    )


def _outside_server_ms(s: Situation) -> float:
    """Return the time of a transaction in which neither the server nor its client was at work."""
    if _pooled(s):
        raise Skip("the time between client and server includes a pooler's")
    return max(0.0, s.budget.parts_ms.get("between", 0.0) - transfer_ms(s))


def _pooled(s: Situation) -> bool:
    try:
        return sessions(s).shared
    except Skip:
        return False


def _ratio_without(s: Situation, spent_ms: float) -> float:
    """Return the model's ratio of throughput without the round trips to that with them."""
    rest_s = max(0.0, s.loop.rest_s - spent_ms / 1000)
    return replace(s.loop, rest_s=rest_s).predict() / s.loop.predict()


def _evidence(s: Situation, trips: RoundTrips, spent_ms: float, share: float) -> list[Evidence]:
    bar = f"at least {percent(TRIPS_SHARE)}"
    return [
        s.evidence("round trips / response time without queues", share, "share", bar),
        s.evidence("round trips per transaction", trips.per_transaction, "count"),
        s.evidence(
            "a round trip, at most",
            trips.ms_max,
            "ms",
            f"at least {ROUND_TRIP_MS_MIN:g} ms",
        ),
        s.evidence("client's own time between statements", s.between_statements_ms, "ms"),
        s.evidence("throughput without them, predicted", _ratio_without(s, spent_ms), "times"),
    ]


SIGNATURE = Signature(
    id="round-trips",
    false_positives=(
        "a script whose every statement takes long in the server, so that none shows the round trip"
        " alone; a load generator that is late to read answers; a pooler with as many sessions as"
        " connections that is itself slow"
    ),
    examine=examine,
    of_clients=True,
)
