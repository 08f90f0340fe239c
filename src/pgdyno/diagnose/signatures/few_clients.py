"""Few clients: one transaction follows another, and the server has nothing else to do.

Trigger: clients of closed loops that do not rest are no more than the server's cores, without a
pool, cores are idle, and the model predicts that more of them would do more work. With one client
throughput is the inverse of the response time, so that whatever the time consists of limits this
client, and not the server.

Threshold: as many clients as cores cannot keep these busy while one of them waits for anything;
calibrated by injection, 1, 2 and 16 clients on 2 cores. Where less than ``SPARE_SHARE`` of the
cores is idle, whoever uses them, more clients would queue for a core too; and where clients wait
``LOCKED_SHARE`` of their time for locks, for these.
"""

from __future__ import annotations

import math

from pgdyno.diagnose._more_clients import AT_WORK_SHARE, more_clients
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose._verdict import part_words
from pgdyno.diagnose.facts.flush import device_words
from pgdyno.diagnose.facts.sessions import SPARE_SHARE, idle_evidence
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.wait_events import HEAVYWEIGHT

WORTHWHILE_RATIO = 1.2
"""Predicted gain below which a closed loop of few clients is limited by something else."""
LOCKED_SHARE = 0.2
"""Part of the working time in waits for locks above which more clients would wait for them too."""
_SHOWN_SHARE = 0.1


def examine(s: Situation) -> Found | Cleared:
    """Compare the clients with the server's cores."""
    clients = sum(group.clients for group in s.groups)
    if not clients:
        raise Skip("no client completed a transaction")
    evidence = _evidence(s, clients)
    those = counted(clients, "client", "clients")
    if s.has_open_loop:
        return Cleared("transactions come at a rate and not one after another", evidence)
    if s.sessions_max < clients or clients > max(1, math.floor(s.cores)):
        return Cleared(f"{those} for {counted(s.cores, 'core', 'cores')}", evidence)
    at_work = s.in_service / clients
    if at_work < AT_WORK_SHARE:
        return Cleared(f"clients rest {percent(1 - at_work)} of their time", evidence)
    waiting = s.part(*HEAVYWEIGHT)
    if clients > 1 and waiting >= LOCKED_SHARE:
        return Cleared(f"they wait {percent(waiting)} of their time for locks", evidence)
    cpu = s.cpu_if_recorded
    if cpu is not None and cpu.idle_share < SPARE_SHARE:
        return Cleared(
            f"{percent(cpu.idle_share)} of the cores are idle for more clients", evidence
        )
    proposals = more_clients(s, specific=True)
    if not proposals or proposals[0].predicted_ratio < WORTHWHILE_RATIO:
        return Cleared(f"more than {those} are not predicted to increase throughput", evidence)
    return Found(
        sentence=(
            f"{'one client sends' if clients == 1 else f'{those} each send'} one transaction after"
            f" another, so throughput is bounded by its response time of"
            f" {figure(s.budget.response_ms)} ms{_consists_of(s)}"
        ),
        share=1.0 if clients == 1 else s.budget.service_ms / s.budget.response_ms,
        liftable=1.0 if clients == 1 else proposals[0].prediction.lifted,
        confidence=0.9,
        evidence=evidence,
        proposals=proposals,
    )


def _consists_of(s: Situation) -> str:
    """Return the largest parts of the response time in words; of a flush also what a sync takes."""
    parts = sorted(s.budget.parts_ms.items(), key=lambda item: -item[1])
    shown = [
        f"{percent(s.budget.share(part))} {part_words(part)}"
        for part, _ in parts[:3]
        if s.budget.share(part) >= _SHOWN_SHARE
    ]
    device = device_words(s) if parts and parts[0][0] in ("flush", "images") else ""
    return (f" ({', '.join(shown)})" if shown else "") + device


def _evidence(s: Situation, clients: int) -> list[Evidence]:
    return [
        s.evidence("clients", clients, "count", "at most the cores"),
        s.evidence("cores", s.cores, "count"),
        s.evidence("connections at work", s.in_service, "sessions"),
        s.evidence("response time", s.budget.response_ms, "ms"),
        *idle_evidence(s),
    ]


SIGNATURE = Signature(
    id="few-clients",
    false_positives=(
        "a single client on purpose, to measure the response time without others; an application"
        " that really has so few"
    ),
    examine=examine,
    of_clients=True,
)
