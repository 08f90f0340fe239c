"""The clients' connections against the sessions that the server has for them, and round trips.

A direct connection has a session of its own. Where the server has fewer sessions than clients have
connections, a pooler stands in between.

Every statement costs at least one round trip: to the server, through it, and back. The quickest
statements (``QUICK_PERCENTILE``) of the script's quickest statement are therefore an upper bound of
the round trip: what their execution takes is in it, what they waited for is not. Behind a pooler
the first statement of a transaction waits for a session, so that it tells nothing. Straight to a
server on the same machine a round trip takes at most ``SOCKET_MS_MAX``: what the quickest statement
takes beyond that is a queue for a core, the lag of the client, or the transfer of a large result.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from pgdyno.numbers import percent
from pgdyno.record.fileformat import CLIENT_BACKEND
from pgdyno.record.finding import Evidence, Skip

if TYPE_CHECKING:
    from pgdyno.facts.slices import Facts
    from pgdyno.record import StatementTotal

POOLED_SHARE = 0.85
"""Sessions per connection below which connections share sessions. Their medians over time are
compared: while clients connect, the two are counted at different moments."""
QUICK_PERCENTILE = 1
SOCKET_MS_MAX = 0.12
"""Calibrated: 0.03 to 0.12 ms on 2 busy cores."""
SPARE_SHARE = 0.1
"""Idle share of the host's cores below which processes compete for CPU."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Sessions(Struct, frozen=True):
    """Sessions and connections over some slices."""

    connections: float
    """Open connections of the clients."""
    on_server: float
    """Client sessions on the server in any state, those of others included."""
    in_transaction: float
    """On average."""

    @property
    def shared(self) -> bool:
        """True if connections share sessions: a pooler assigns them."""
        return self.on_server < POOLED_SHARE * self.connections

    @property
    def in_use_share(self) -> float:
        """Part of the sessions that are in a transaction."""
        return self.in_transaction / self.on_server if self.on_server else 0.0


class RoundTrips(Struct, frozen=True):
    """The messages of a transaction between client and server."""

    per_transaction: float
    ms_max: float
    """Upper bound of a round trip."""

    @property
    def total_ms(self) -> float:
        """Time of a transaction in round trips."""
        return self.per_transaction * self.ms_max


def sessions(s: Facts) -> Sessions:
    """Return the sessions of ``s``. Raises Skip where they cannot be compared."""
    if s.is_http:
        raise Skip("the clients' connections are to a web server, which has its own to the server")
    on_server = sessions_on_server(s)
    if not on_server:
        raise Skip("the clients' sessions are not visible on the server")
    return Sessions(_connections(s), on_server, s.sessions_at_work)


def sessions_on_server(s: Facts) -> float:
    """Return the usual number of client sessions on the server, in any state; 0 if none was
    seen."""
    seen = s.run.wait_series(s.slice_ids)
    counts: dict[int, float] = defaultdict(float)
    for at_ms, kind, average in zip(
        seen["at_ms"], seen["backend_type"], seen["average"], strict=True
    ):
        counts[int(at_ms)] += float(average) if kind == CLIENT_BACKEND else 0.0
    return median(counts.values()) if counts else 0.0


def _connections(s: Facts) -> float:
    """Return the usual number of open connections. Raises Skip if they come and go."""
    for account in s.accounts:
        if account.connects.again > account.clients:
            raise Skip("the clients open new connections all the time")
    counts: Counter[tuple[int | None, int]] = Counter()
    for row in s.run.group_intervals(s.slice_ids):
        counts[row.slice_id, row.at_ms] += row.connections
    if not counts:
        raise Skip("the clients' connections were not recorded")
    return median(counts.values())


def round_trips_of(s: Facts) -> RoundTrips:
    """Return the round trips of the mean transaction. Raises Skip if no statement was timed by a
    client."""
    if s.is_observed or s.is_http:
        raise Skip("no client timed its statements")
    statements = [each for each in s.statements if each.service.count]
    timed = [each for each in statements if not (each.position == 0 and _shared(s))]
    if not timed:
        raise Skip("no statement was timed apart from the wait for a session")
    quickest_ns = min(each.service.percentile(QUICK_PERCENTILE) for each in timed)
    quickest_ms = quickest_ns / 1e6
    if is_direct(s):
        quickest_ms = min(quickest_ms, SOCKET_MS_MAX)
    return RoundTrips(_answers_waited_for(s, statements), quickest_ms)


def is_direct(s: Facts) -> bool:
    """True if clients talk to the server itself, on the same machine, with nothing in between.

    The port must be the server's own: another one may be a relay's or a pooler's.
    """
    server, host = s.run.run.server, s.run.run.host
    if s.is_pooled or not host.get("same_host_as_server"):
        return False
    uri, own_port = urlsplit(server.get("uri") or ""), s.settings.text("port")
    query = parse_qs(uri.query)
    named = query.get("host", [uri.hostname or ""])[0]
    port = query.get("port", [str(uri.port or 5432)])[0]
    if named.startswith(("/", "@")):
        return own_port in (None, port)
    return named in _LOOPBACK and port == own_port


def _answers_waited_for(s: Facts, statements: list[StatementTotal]) -> float:
    """Return how often a transaction waits for an answer; statements of a pipeline overlap."""
    transactions = s.throughput_tps * s.seconds
    count = sum(each.service.count for each in statements)
    answered_ns = sum(each.spent_ns for each in statements)
    service = s.run.histogram("service", s.slice_ids)
    overlap = answered_ns / (service.count * service.mean) if service.count else 1.0
    return count / transactions / max(1.0, overlap)


def queued_ms(s: Facts, between_ms: float) -> float:
    """Return how much of ``between_ms``, the time of a transaction in which neither the server nor
    its client was seen at work, is a queue for a core.

    Nothing stands between two processes of one machine. Where its cores are saturated, they wait
    there for a core, whose queue sampling does not show: a session that got a statement is still
    seen idle, and the client has not seen the answer yet. The messages themselves take round trips
    and the generator's CPU time.
    """
    cpu = s.cpu_if_recorded
    if cpu is None or cpu.idle_share >= SPARE_SHARE or not is_direct(s):
        return 0.0
    if s.is_http:
        return _queued_behind_front_ms(s, between_ms)
    statements = sum(each.service.count for each in s.statements) / s.seconds / s.throughput_tps
    generator_ms = 1000 * s.generator_cores / s.throughput_tps
    return max(0.0, between_ms - SOCKET_MS_MAX * max(1.0, statements) - generator_ms)


def _queued_behind_front_ms(s: Facts, between_ms: float) -> float:
    """Return the same of a front end, whose statements the server answers; 0 of any other web
    server, which may be elsewhere."""
    if s.front is None:
        return 0.0
    statements = s.front_load.mean("statements") * requests_each(s)
    return max(0.0, between_ms - SOCKET_MS_MAX * max(1.0, statements))


def transfer_ms(s: Facts) -> float:
    """Return the time of a transaction in which its session waits for the client to take a result.

    The server sends ahead what the buffers of the sockets hold; only larger results make it wait.
    """
    return 1000 * sending(s) / s.throughput_tps if s.sessions_were_sampled else 0.0


def sending(s: Facts) -> float:
    """Return the sessions, on average, that wait for their client to take a result."""
    return s.by_event.get(("Client", "ClientWrite"), 0.0)


def _shared(s: Facts) -> bool:
    try:
        return sessions(s).shared
    except Skip:
        return False


def idle_evidence(s: Facts) -> list[Evidence]:
    """Return the idle share of the host's cores, which ``SPARE_SHARE`` bounds; none if it was not
    recorded."""
    cpu = s.cpu_if_recorded
    if cpu is None:
        return []
    bar = f"at least {percent(SPARE_SHARE)}"
    return [s.evidence("host CPU idle", cpu.idle_share, "share", bar)]


def requests_each(s: Facts) -> float:
    """Return the requests to a web server in a mean transaction of the clients' scripts."""
    done = sum(each.service.count for each in s.statements)
    return max(1.0, done / (s.throughput_tps * s.seconds))
