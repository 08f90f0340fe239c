"""Client-limited: the load generator itself is the limit, so the server was not measured.

Trigger: a thread of the generator runs or is ready to run at least ``DEMAND_SHARE`` of the time. If
it runs for most of that time, its own work is the limit, and it cannot send faster. If it mostly
waits for a core, it lacks CPU: the finding then also requires that sending late takes ``LAG_SHARE``
of the response time.

In an open loop a transaction also waits for a free client. That queue is caused by the server or by
the rate, not by the generator: only transactions sent late although a client and a connection were
free count as lag.

A generator that shares the host's cores with a saturated server is late occasionally without being
the limit: its thread waits for a core but needs little CPU. Its part of the host's CPU is evidence
in both cases.

Thresholds: no published tool has one; calibrated by injection: scripts that compute much in the
client, and a generator on two cores shared with 16 sessions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Evidence, Skip
from pgdyno.diagnose.words import figure, percent

DEMAND_SHARE = 0.9
LAG_SHARE = 0.25


@dataclass(frozen=True)
class _Thread:
    """One thread of the generator, in parts of the measured time."""

    busy: float
    queued: float

    @property
    def demand(self) -> float:
        return self.busy + self.queued

    @property
    def saturated(self) -> bool:
        """True if its own work keeps it from sending."""
        return self.demand >= DEMAND_SHARE and self.busy >= self.queued


def examine(s: Situation) -> Found | Cleared:
    """Check the load generator's own CPU time and delays."""
    worst = max(_threads(s), key=lambda thread: thread.demand)
    lag = s.latency_budget.share("client lag")
    evidence = _evidence(s, worst, lag)
    if not worst.saturated and (worst.demand < DEMAND_SHARE or lag < LAG_SHARE):
        return Cleared(
            f"the load generator's busiest thread uses {percent(worst.busy)} of a core",
            evidence,
        )
    if worst.saturated:
        sentence = (
            "the load generator is the limit: one of its threads uses"
            f" {percent(worst.busy)} of a core"
        )
    else:
        sentence = (
            f"the load generator lacks CPU: it sends {figure(_late_ms(s))} ms late at the 99th"
            f" percentile, and the delay is {percent(lag)} of the mean response time"
        )
    return Found(
        sentence=sentence,
        share=lag,
        liftable=1.0,
        confidence=0.9 if worst.saturated else 0.7,
        evidence=evidence,
        spoils=True,
    )


def _threads(s: Situation) -> list[_Thread]:
    series = s.run.series("metric_generator", s.slice_ids)
    threads = []
    for number in sorted(set(series["thread"])):
        mine = series["thread"] == number
        lasted_us = series["duration_ms"][mine].sum() * 1000
        used_us = (series["cpu_user_us"] + series["cpu_system_us"])[mine].sum()
        queued_us = series["run_queue_delay_us"][mine].sum()
        if lasted_us > 0:
            threads.append(_Thread(float(used_us / lasted_us), float(queued_us / lasted_us)))
    if not threads:
        raise Skip("the load generator's own CPU time was not recorded")
    return threads


def _late_ms(s: Situation) -> float:
    late_ns: int = s.run.histogram("send_late", s.slice_ids).percentile(99)
    return late_ns / 1e6


def _evidence(s: Situation, worst: _Thread, lag: float) -> list[Evidence]:
    evidence = [
        s.evidence(
            "busiest generator thread, running or ready to run",
            worst.demand,
            "share",
            f"at least {percent(DEMAND_SHARE)}",
        ),
        s.evidence("of this, ready but waiting for a core", worst.queued, "share"),
        s.evidence("delay in sending, 99th percentile", _late_ms(s), "ms"),
        s.evidence(
            "delay in sending / response time",
            lag,
            "share",
            f"at least {percent(LAG_SHARE)} if it waits for a core",
        ),
        s.evidence(
            "longest stall of the generator's event loop",
            s.run.generator(s.slice_ids).loop_stall_us_max / 1000,
            "ms",
        ),
    ]
    if s.cpu_if_recorded is not None:
        evidence.append(
            s.evidence("generator / CPU of the host", s.generator_cores / s.cpu.cores, "share")
        )
    return evidence


SIGNATURE = Signature(
    id="client-limited",
    false_positives=(
        "a script that computes much in the client on purpose; other programs that keep the"
        " generator's host busy"
    ),
    examine=examine,
)
