"""Client-limited: the load generator itself is the limit, so the server was not measured.

Trigger: a thread of the generator wants a core at least ``WANTED`` of the time, running or ready to
run. If it runs for most of that, its own work is the limit, and it cannot send faster. If it mostly
waits for a core, it is short of one: the finding then also needs ``LAG_SHARE`` of the response time
to be lost by sending late.

In an open loop a transaction also waits for a client that is free. That queue is the server's
doing or the rate's, and no lag of the generator: only what is sent late, with a client and a
connection at hand, counts as that.

A generator that shares the host's cores with a saturated server is late now and then without being
the limit: its thread waits for a core but wants little of one. How much of the host's CPU it takes
is evidence either way.

Thresholds: no published tool has one; calibrated by injection, scripts that compute a lot in the
client, and a generator on two cores beside 16 sessions.
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Skip

WANTED = 0.9
LAG_SHARE = 0.25


class _Thread(Struct, frozen=True):
    """A thread of the generator; times are shares of the period."""

    busy: float
    queued: float

    @property
    def wanted(self) -> float:
        return self.busy + self.queued

    @property
    def saturated(self) -> bool:
        """True if its own work delays sending."""
        return self.wanted >= WANTED and self.busy >= self.queued


def examine(s: Situation) -> Found | Cleared:
    """Examine the generator's own figures."""
    worst = max(_threads(s), key=lambda thread: thread.wanted)
    lag = s.budget.share("client lag")
    evidence = _evidence(s, worst, lag)
    if not worst.saturated and (worst.wanted < WANTED or lag < LAG_SHARE):
        return Cleared(
            f"the load generator's busiest thread uses {percent(worst.busy)} of a core",
            evidence,
            parts=("client lag",),
        )
    if worst.saturated:
        sentence = (
            f"the load generator is the limit: a thread of it uses {percent(worst.busy)} of a core"
        )
    else:
        sentence = (
            f"the load generator is short of CPU: it sends {figure(_late_ms(s))} ms late at the"
            f" 99th percentile, {percent(lag)} of the response time"
        )
    return Found(
        sentence=sentence,
        parts=("client lag",),
        liftable=1.0,
        confidence=0.9 if worst.saturated else 0.7,
        evidence=evidence,
        causes_distrust=True,
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
        raise Skip("the load generator's own figures were not recorded")
    return threads


def _late_ms(s: Situation) -> float:
    late_ns: int = s.run.histogram("send_late", s.slice_ids).percentile(99)
    return late_ns / 1e6


def _evidence(s: Situation, worst: _Thread, lag: float) -> list[Evidence]:
    evidence = [
        s.evidence(
            "busiest thread of the generator, running or ready to run",
            worst.wanted,
            "share",
            f"at least {percent(WANTED)}",
        ),
        s.evidence("of this, ready but without a core", worst.queued, "share"),
        s.evidence("sent late, 99th percentile", _late_ms(s), "ms"),
        s.evidence(
            "lag of the clients / response time", lag, "share", f"{percent(LAG_SHARE)} if starved"
        ),
        s.evidence(
            "longest stall of its event loop",
            s.run.generator(s.slice_ids).loop_stall_us_max / 1000,
            "ms",
        ),
    ]
    if s.cpu_if_recorded is not None:
        evidence.append(
            s.evidence("generator / host CPU", s.generator_cores / s.cpu.cores, "share")
        )
    return evidence


SIGNATURE = Signature(
    id="client-limited",
    false_positives=(
        "a script that is meant to compute much in the client; a machine so busy otherwise that"
        " the generator hardly runs"
    ),
    examine=examine,
    of_clients=True,
)
