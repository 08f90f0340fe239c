"""The latency budget of a transaction: every millisecond of the mean response, counted once.

    response = pool wait + connecting + queue for a client (open loop) + client lag + service

are the clients' own clocks. Service is split by what the server's sessions were seen doing while
they were in a transaction: by Little's law, throughput times service is the average number of
connections in service, so a class of which N sessions were seen on average owns N / in-service of
the service time. What no session was seen doing (the answer on its way, the generator not yet at
it) stays with the parts that the server cannot see: ``pause``, the client's time between the
statements of a script outside a transaction block (\\sleep, its own work), as far as the times of
the statements show it, and ``between``, the network and both ends' handling of messages.

Between the clients and the server may be a web front end that pgdyno started. Its own counts divide
the service then: ``http``, on the way there and back; ``connector``, the queue for one of its
threads; ``front pool``, for a connection of its pool; ``application``, its own work;
``collection``, stopped by its garbage collector. What is left is the database's, and the sessions
divide that.

Two classes are cut in two. The flush: into what it takes however little it carries, and
``images``, what full-page images add to it by their bytes. What commit_delay adds is ``commit
delay``: the sleep itself, and its part of the queue behind another's flush. What can run (see
``Facts.runnable``): into ``running`` on a core, by the kernel's clock, and ``ready``, which is
the rest, in a queue for a core, with the part of ``between`` that is one too (see
``facts.sessions.queued_ms``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from msgspec import Struct

from pgdyno.facts.flush import delay_part_of_flush, sleepers
from pgdyno.facts.scripts import late_ms
from pgdyno.facts.sessions import queued_ms, requests_each
from pgdyno.facts.slices import Facts
from pgdyno.record.fileformat import CLIENT_BACKENDS
from pgdyno.record.finding import Skip
from pgdyno.wait_events import CLASS_WORDS, Wait, WaitClass

FrontPart = Literal["http", "connector", "front pool", "application", "collection"]
"""On the way to the web server and back, parsing included; waiting for a thread of its connector;
for a connection of its pool; at work in the application; stopped by the garbage collector."""
TRANSFER_BYTES_S = 200e6
TRANSFER_PART = 0.25

Part = Literal[
    "pool wait", "connecting", "queue", "client lag", FrontPart, "running", "ready", "images", Wait,
    "pause", "late", "between", "web server", "unknown", "too few samples",
]  # fmt: skip

BEFORE_SENT: tuple[Part, ...] = ("pool wait", "connecting", "queue", "client lag")
"""Time before the first byte is sent."""
FRONT_PARTS: tuple[FrontPart, ...] = get_args(FrontPart)
"""Time within a front end of pgdyno's and on the way to it."""
CLIENT_PARTS: tuple[Part, ...] = (*BEFORE_SENT, *FRONT_PARTS)
"""Time that is not the database's."""
BACKLOG: Part = "queue"
"""The wait for a free client, before a transaction begins."""
QUEUES: tuple[Part, ...] = ("pool wait", "queue", "connector", "front pool")
"""Time spent behind other transactions, which is as long as theirs take."""
BEGUN_MIN = 0.9
"""Part of the response time that is not spent in a backlog, below which shares are of the rest."""
PART_MAX = 0.15
"""Largest share of a part that may be without a finding where nothing is said to hold the load
back."""
_WORDS: dict[str, str] = {
    **CLASS_WORDS,
    "pool wait": "waiting for a pooled connection",
    "connecting": "connecting",
    "queue": "the queue for a free client",
    "client lag": "the load generator's lag",
    "running": "CPU",
    "ready": "the queue for a core",
    "images": "flushing full-page images",
    "pause": "pauses of the script",
    "late": "the load generator's lateness after pauses",
    "between": "network and messages",
    "web server": "the web server and the way to it",
    "http": "HTTP: network and messages of the requests",
    "connector": "the queue for a thread of the web server",
    "front pool": "the wait for a connection of the application's pool",
    "application": "the application",
    "collection": "garbage collection",
    "unknown": "time without samples",
    "too few samples": "not known (too few samples)",
}


def part_words(part: Part) -> str:
    """Return a part of the latency budget in words."""
    return _WORDS[part]


class ResponseTimeBudget(Struct, frozen=True):
    """Mean milliseconds of a transaction by part; they add up to ``response_ms``."""

    response_ms: float
    parts_ms: Mapping[Part, float]

    def share(self, *parts: Part) -> float:
        """Part of the response time that ``parts`` own together, 0 to 1."""
        if self.response_ms <= 0:
            return 0.0
        return sum(self.parts_ms.get(part, 0.0) for part in parts) / self.response_ms

    def owned_share(self, parts: Collection[Part], claimed: Collection[Part]) -> float:
        """Part of the response time that is due to ``parts``, their share of queues included."""
        outside = self.share(*(part for part in parts if part in CLIENT_PARTS and part != BACKLOG))
        of_service = self.share(*(part for part in parts if part not in CLIENT_PARTS))
        own = outside * self._backlog_times(claimed) + self.with_queues(of_service, claimed)
        return min(1.0, own + (self.share(BACKLOG) if BACKLOG in parts else 0.0))

    def with_queues(self, of_service: float, claimed: Collection[Part]) -> float:
        """Part of the response time that is due to a part of the service, 0 to 1.

        A queue before the server is as long as the service of those ahead, and a backlog as long as
        their whole time, so each part of it also owns its share of the queues that are not
        ``claimed`` as a cause themselves.
        """
        before = (part for part in QUEUES if part not in claimed and part != BACKLOG)
        queued, service = self.share(*before), 1.0 - self.share(*CLIENT_PARTS)
        own = of_service * (1.0 + queued / service) if service > 0 else of_service
        return min(1.0, own * self._backlog_times(claimed))

    def _backlog_times(self, claimed: Collection[Part]) -> float:
        """Return the factor from a part of a transaction's own time to that with its share of the
        backlog."""
        if BACKLOG in claimed or self.begun <= 0:
            return 1.0
        return 1.0 / self.begun

    @property
    def begun(self) -> float:
        """Part of the response time from the start of a transaction on, without its wait for a free
        client."""
        return 1.0 - self.share(BACKLOG)

    def own_share(self, *parts: Part) -> float:
        """Return the share that ``parts`` have of a transaction's own time: from its start on."""
        return self.share(*parts) / self.begun if self.begun > 0 else 0.0

    @property
    def own_title(self) -> str:
        """The time that ``own_share`` is of."""
        return "the response time" if self.begun > BEGUN_MIN else "a transaction's own time"

    @property
    def service_ms(self) -> float:
        """Time without the clients' own waits."""
        return self.response_ms - sum(self.parts_ms.get(part, 0.0) for part in CLIENT_PARTS)

    def service_share(self, *parts: Part) -> float:
        """Part of the service time that ``parts`` own together, 0 to 1."""
        service_ms = self.service_ms
        return sum(self.parts_ms.get(p, 0.0) for p in parts) / service_ms if service_ms > 0 else 0.0


def latency_budget(s: Facts) -> ResponseTimeBudget:
    """Return the budget of ``s``; without samples of sessions, all service is ``unknown``.

    Samples that show only idle sessions are samples: no wait is long then, and the time is that on
    cores, by the kernel's count, and of messages.
    """
    mean_ms = {
        kind: s.run.histogram(kind, s.slice_ids).mean / 1e6
        for kind in ("response", "pool_wait", "connect", "client_lag", "send_late", "service")
    }
    response_ms = mean_ms["response"]
    parts, service_ms = _before_service(mean_ms, has_queue=s.has_open_loop)
    outside = front_parts(s, service_ms)
    service_ms = max(0.0, service_ms - sum(outside.values()))
    try:
        parts |= _service_parts(s, service_ms)
    except Skip:
        parts["unknown"] = service_ms
    if s.is_http and s.front is None and "between" in parts:
        # Of a web server of the user's nothing else is known but what its own figures tell.
        queue_ms = min(parts["between"], _foreign_queue_ms(s))
        rest_ms = parts["between"] - queue_ms
        parts |= {"web server": rest_ms, "front pool": queue_ms, "between": 0.0}
    return ResponseTimeBudget(response_ms, parts | outside)


def front_parts(s: Facts, service_ms: float) -> dict[Part, float]:
    """Return the parts of ``service_ms`` outside the database, by a front end's own counts; empty
    without one that pgdyno started, or without its counts.

    Its pauses stop a request as far as it is at work in the application: what the database does
    meanwhile goes on.
    """
    if s.front is None:
        return {}
    try:
        load = s.front_load
    except Skip:
        return {}
    times = requests_each(s)
    pause_ms = min(s.between_statements_ms or 0.0, service_ms)
    within_ms = min(load.mean("took_ms") * times, service_ms - pause_ms)
    scale = within_ms / load.mean("took_ms") if load.mean("took_ms") else 0.0
    outside_ms = service_ms - pause_ms - within_ms
    queue_ms = min(outside_ms, 1000 * load.queue / s.throughput_tps)
    own_ms = load.mean("application_ms")
    collection_ms = min(own_ms, load.collecting * load.mean("took_ms"))
    return {
        "pause": pause_ms,
        "http": outside_ms - queue_ms,
        "connector": queue_ms,
        "front pool": load.mean("pool_ms") * scale,
        "application": (own_ms - collection_ms) * scale,
        "collection": collection_ms * scale,
    }


def _foreign_queue_ms(s: Facts) -> float:
    """Return the time of a transaction in the queue for a connection within a web server of the
    user's: by Little's law, from the requests that its figures show waiting."""
    waiting = s.foreign_front.pool_waiting if s.foreign_front is not None else None
    return 1000 * waiting / s.throughput_tps if waiting else 0.0


def _before_service(
    mean_ms: Mapping[str, float], *, has_queue: bool
) -> tuple[dict[Part, float], float]:
    """Return the client's parts and the service time; together they are the response.

    The means of histograms are rounded, and what rounds a queue of seconds may be more than all of
    the service, so the rounding is left to the waits.
    """
    # A generator that is late is late to send; what else passes in an open loop before a client
    # takes a transaction on is the queue for a free one.
    lag_ms = mean_ms["client_lag"]
    queue_ms = max(0.0, lag_ms - mean_ms["send_late"]) if has_queue else 0.0
    waits_ms = (mean_ms["pool_wait"], mean_ms["connect"], queue_ms, lag_ms - queue_ms)
    waited_ms = sum(waits_ms)
    service_ms = min(mean_ms["service"], mean_ms["response"])
    if not waited_ms:
        service_ms = mean_ms["response"]
    scale = (mean_ms["response"] - service_ms) / waited_ms if waited_ms else 0.0
    parts = dict(zip(BEFORE_SENT, (ms * scale for ms in waits_ms), strict=True))
    return parts, service_ms


def _service_parts(s: Facts, service_ms: float) -> dict[Part, float]:
    """Divide ``service_ms`` by the sampled wait classes; the parts add up to it."""
    sessions: dict[WaitClass, float] = s.by_class
    if not s.sessions_were_sampled or s.in_service <= 0:
        return {"unknown": service_ms}
    each_ms = service_ms / s.in_service
    running = min(s.runnable, _cores_used(s))
    rest = s.not_waiting - s.runnable
    parts: dict[Part, float] = {
        "running": running * each_ms,
        "ready": (s.runnable - running) * each_ms,
        **_not_in_server(s, min(rest, s.sessions("client")) * each_ms, rest * each_ms),
    }
    for name, average in sessions.items():
        if name != "cpu" and name != "client":
            parts[name] = average * each_ms
    parts |= _flush_parts(s, parts, each_ms)
    queued = queued_ms(s, parts["between"])
    return parts | {"ready": parts["ready"] + queued, "between": parts["between"] - queued}


def _flush_parts(s: Facts, parts: Mapping[Part, float], each_ms: float) -> dict[Part, float]:
    """Divide the flush into what it takes itself, for commit_delay and for full-page images."""
    asleep_ms = min(sleepers(s) * each_ms, parts["between"])
    flush_ms = parts.get("flush", 0.0)
    delayed_ms = flush_ms * delay_part_of_flush(s)
    images_ms = (flush_ms - delayed_ms) * image_part_of_flush(s)
    return {
        "between": parts["between"] - asleep_ms,
        "commit delay": parts.get("commit delay", 0.0) + asleep_ms + delayed_ms,
        "flush": flush_ms - delayed_ms - images_ms,
        "images": images_ms,
    }


def _not_in_server(s: Facts, idle_ms: float, whole_ms: float) -> dict[Part, float]:
    """Divide ``whole_ms``, which no session spent at work, into the client's time and messages.

    In ``idle_ms`` of it the server was seen waiting for the client within a transaction block. As
    far as the client had an answer and had not sent the next statement, that is the client's own
    time; the rest was under way. Without the times of the statements all of it is the client's.
    What pauses take beyond what the script asks for is the generator's lateness.
    """
    held_ms = 0.0 if s.front is not None else s.between_statements_ms
    client_ms = idle_ms if held_ms is None else min(idle_ms, held_ms)
    pause_ms = 0.0 if held_ms is None else min(whole_ms - idle_ms, held_ms - client_ms)
    late_within, late_outside = late_ms(s, client_ms, pause_ms)
    return {
        "client": client_ms - late_within,
        "pause": pause_ms - late_outside,
        "late": late_within + late_outside,
        "between": whole_ms - client_ms - pause_ms,
    }


def image_part_of_flush(s: Facts) -> float:
    """Part of a flush's time that the bytes of full-page images take, 0 to 1.

    A flush has a latency and carries bytes. What the bytes take is estimated from the bytes per
    flush at ``TRANSFER_BYTES_S``, a modest disk's sequential rate, so that it errs towards the
    latency; of the bytes, the images have their share. Without the time of a flush, which needs
    track_wal_io_timing, ``TRANSFER_PART`` is assumed.
    """
    wal = s.wal_if_recorded
    if wal is None or not wal.full_page_bytes:
        return 0.0
    transfer = TRANSFER_PART
    if wal.sync_ms and wal.syncs:
        transfer = min(1.0, 1000 * wal.bytes / TRANSFER_BYTES_S / wal.sync_ms)
    return transfer * wal.full_page_bytes / wal.bytes


def _cores_used(s: Facts) -> float:
    """Cores that client sessions ran on; no more than all where the kernel was not asked."""
    used = s.process_cores(*CLIENT_BACKENDS)
    return s.cores_to_use if used is None else used
