"""The latency budget of a transaction: every millisecond of the mean response time, counted once.

    response = pool wait + connecting + queue for a client (open loop) + client lag + service

is measured by the clients. Service time is split by the states of the server's sessions in a
transaction: by Little's law, throughput times service time is the average number of connections in
service, so a class with N sessions on average accounts for N / in-service of the service time. Time
in which no session was seen in a transaction (the answer is on its way, or the generator has not
read it yet) is not visible to the server: ``between``.

Two classes are split. The flush: into its latency, and ``images``, the time that the bytes of
full-page images add. Runnable sessions (see ``Facts.runnable``): into ``running`` on a core, by the
kernel's count, and ``ready``, the rest, which wait for a core.
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
"""Waits before the first byte is sent."""


@dataclass(frozen=True)
class LatencyBudget:
    """Mean milliseconds of a transaction by part; they add up to ``response_ms``."""

    response_ms: float
    parts_ms: Mapping[Part, float]

    def share(self, *parts: Part) -> float:
        """Return the part of the response time that ``parts`` have together, 0 to 1."""
        if self.response_ms <= 0:
            return 0.0
        return sum(self.parts_ms.get(part, 0.0) for part in parts) / self.response_ms

    @property
    def service_ms(self) -> float:
        """Response time without the clients' own waits."""
        return self.response_ms - sum(self.parts_ms.get(part, 0.0) for part in CLIENT_PARTS)

    def service_share(self, *parts: Part) -> float:
        """Return the part of the service time that ``parts`` have together, 0 to 1."""
        service_ms = self.service_ms
        return sum(self.parts_ms.get(p, 0.0) for p in parts) / service_ms if service_ms > 0 else 0.0


def latency_budget(s: Facts) -> LatencyBudget:
    """Return the latency budget of ``s``; without samples, all service time is ``between``."""
    mean_ms = {
        kind: s.run.histogram(kind, s.slice_ids).mean / 1e6
        for kind in ("response", "pool_wait", "connect", "client_lag", "send_late")
    }
    left_ms = response_ms = mean_ms["response"]
    # A late generator sends late; in an open loop the rest of the lag is the queue for a client.
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
    """Split ``service_ms`` by the classes of the sessions seen; the parts add up to it."""
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
    """Part of a flush's time that writing full-page images takes, 0 to 1.

    A flush has a latency and a transfer time. The transfer time is estimated from the bytes per
    flush at ``TRANSFER_BYTES_S``, the sequential rate of a modest disk; it is attributed to images
    by their share of the bytes. Without the time of a flush, which needs
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
    """Return the cores that client sessions used; all cores if that was not recorded."""
    used = s.process_cores(CLIENT_BACKEND)
    return s.cores if used is None else used
