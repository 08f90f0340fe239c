"""The latency budget of a transaction: every millisecond of the mean response, counted once.

    response = pool wait + connecting + queue for a client (open loop) + client lag + service

are the clients' own clocks. Service is split by what the server's sessions were seen doing while
they were in a transaction: by Little's law, throughput times service is the average number of
connections in service, so a class of which N sessions were seen on average owns N / in-service of
the service time. What no session was seen doing (the answer on its way, the generator not yet at
it) stays with the parts that the server cannot see: ``between``.

Two classes are cut in two. The flush: into what it takes however little it carries, and
``images``, what full-page images add to it by their bytes. What can run (see
``Facts.runnable``): into ``running`` on a core, by the kernel's clock, and ``ready``, which is
the rest, in a queue for a core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pgdyno.diagnose._facts import CLIENT_BACKEND, Facts
from pgdyno.diagnose._waits import WaitClass
from pgdyno.diagnose.finding import Skip

TRANSFER_BYTES_S = 200e6
TRANSFER_PART = 0.25

Part = Literal[
    "pool wait", "connecting", "queue", "client lag", "running", "ready", "flush", "images",
    "replica", "row", "lock", "shared", "data", "client", "other", "between",
]  # fmt: skip


CLIENT_PARTS: tuple[Part, ...] = ("pool wait", "connecting", "queue", "client lag")
"""Time before the first byte is sent."""


@dataclass(frozen=True)
class LatencyBudget:
    """Mean milliseconds of a transaction by part; they add up to ``response_ms``."""

    response_ms: float
    parts_ms: Mapping[Part, float]

    def share(self, *parts: Part) -> float:
        """Part of the response time that ``parts`` own together, 0 to 1."""
        if self.response_ms <= 0:
            return 0.0
        return sum(self.parts_ms.get(part, 0.0) for part in parts) / self.response_ms

    @property
    def service_ms(self) -> float:
        """Time without the clients' own waits."""
        return self.response_ms - sum(self.parts_ms.get(part, 0.0) for part in CLIENT_PARTS)

    def service_share(self, *parts: Part) -> float:
        """Part of the service time that ``parts`` own together, 0 to 1."""
        service_ms = self.service_ms
        return sum(self.parts_ms.get(p, 0.0) for p in parts) / service_ms if service_ms > 0 else 0.0


def latency_budget(s: Facts) -> LatencyBudget:
    """Return the budget of ``s``; without samples of work, all service is ``between``."""
    mean_ms = {
        kind: s.run.histogram(kind, s.slice_ids).mean / 1e6
        for kind in ("response", "pool_wait", "connect", "client_lag", "send_late")
    }
    left_ms = response_ms = mean_ms["response"]
    # A generator that is late is late to send; what else passes in an open loop before a client
    # takes a transaction on is the queue for a free one.
    lag_ms = mean_ms["client_lag"]
    queue_ms = max(0.0, lag_ms - mean_ms["send_late"]) if s.has_open_loop else 0.0
    parts: dict[Part, float] = {}
    waits = (mean_ms["pool_wait"], mean_ms["connect"], queue_ms, lag_ms - queue_ms)
    for part, wait_ms in zip(CLIENT_PARTS, waits, strict=True):
        parts[part] = min(wait_ms, left_ms)
        left_ms -= parts[part]
    service_ms = left_ms
    try:
        parts |= _service_parts(s, service_ms)
    except Skip:
        parts["between"] = service_ms
    return LatencyBudget(response_ms, parts)


def _service_parts(s: Facts, service_ms: float) -> dict[Part, float]:
    """Divide ``service_ms`` by the sampled wait classes; the parts add up to it."""
    sessions: dict[WaitClass, float] = s.by_class
    if s.in_service <= 0:
        return {"between": service_ms}
    each_ms = service_ms / s.in_service
    running = min(s.runnable, _cores_used(s))
    rest = s.not_waiting - s.runnable
    client = min(rest, s.sessions("client"))
    parts: dict[Part, float] = {
        "running": running * each_ms,
        "ready": (s.runnable - running) * each_ms,
        "client": client * each_ms,
        "between": (rest - client) * each_ms,
    }
    for name, average in sessions.items():
        if name != "cpu" and name != "client":
            parts[name] = average * each_ms
    images = image_part_of_flush(s)
    flush_ms = parts.get("flush", 0.0)
    return parts | {"flush": flush_ms * (1.0 - images), "images": flush_ms * images}


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
    used = s.process_cores(CLIENT_BACKEND)
    return s.cores if used is None else used
