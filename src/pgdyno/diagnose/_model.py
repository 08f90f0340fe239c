"""Prediction of a change's effect on throughput: a closed queueing model, fitted to measurements.

A session in service is at one of these stations, by the latency budget:

    CPU       ``cores`` servers with one queue. The demand D is the CPU time per transaction of the
              server and of the generator on the same host.
    flush     a delay. A commit that arrives while a flush is on its way waits for that one's end
              and then for its own, so the delay per commit grows from one flush with one session
              towards two with many: F(m) = F(1) (2 - 1/m). Commits in company share a flush, so it
              does not queue (group commit).
    row       a queue behind the holders of hot rows. From the measured waiters W the utilisation
              U of the row as a server follows by W = U^2 / (1 - U); holding overlaps with the other
              stations, so only the waiting counts as time.
    shared    a delay that grows with the sessions: contention for locks in shared memory.
    data      a delay: reading and writing data files.
    rest      a delay that makes the model give the measured throughput at today's sessions. Where
              the cores are saturated, a larger D does that.

With a queue at one station and delays at all others this is the machine-repairman model, which
has an exact solution: the chance of j sessions at the CPU is proportional to the product of
D/min(i,C) for i = 1..j times Z^(m-j)/(m-j)!, Z being the sum of the delays. The wait for rows,
which depends on the throughput, is found by iteration (others' queues as one session sees them are
(m-1)/m of all; Schweitzer). A fractional number of sessions lies between its neighbours.

Two effects that queueing alone does not have were calibrated on a 2-core machine with TPC-B:

    D grows by ``QUEUE_COST`` for each factor of e that the queue for a core is longer than the
    cores: with commits that wait for nothing, 2 sessions did 12,000 tps and 16 did 8,700. Beyond
    ``QUEUE_PER_CORE_MAX`` sessions per core, which was not measured, it grows no further.
    Without flushes the part ``FLUSH_CPU`` of the system's CPU time per transaction goes: system
    calls and two switches of context per commit. 2 sessions that wait for flushes needed 240 us of
    CPU per transaction and 170 without, 16 needed 300 and 240, of which the kernel took 0.4 to 0.5.
    In full where flushing is at least ``FLUSH_CPU_FULL`` of the service.

Predicted ratios are the model changed over the model unchanged. They rank remedies and are shown
beside what a trial measures; nothing is kept because of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

QUEUE_COST = 0.18
QUEUE_PER_CORE_MAX = 8.0
FLUSH_CPU = 0.6
FLUSH_CPU_FULL = 0.1

_ROUNDS = 60


@dataclass(frozen=True)
class ClosedLoop:
    """Demands per transaction, in seconds, of ``sessions`` busy server sessions."""

    cores: float
    sessions: float
    throughput_tps: float
    cpu_s: float
    cpu_system_share: float = 0.0
    """Part of ``cpu_s`` that is the kernel's."""
    flush_s: float = 0.0
    row_s: float = 0.0
    shared_s: float = 0.0
    data_s: float = 0.0
    rest_s: float = 0.0
    queue_now: float = 0.0
    """Sessions that ran or were ready to run on average, as measured."""
    saturated: bool = False
    """True if sessions queue for the cores, so that these explain the throughput."""

    @property
    def service_s(self) -> float:
        """Measured time in service."""
        return self.sessions / self.throughput_tps

    def fitted(self) -> ClosedLoop:
        """Return the model adjusted to the measured throughput if it predicts more.

        It increases the demand for CPU if the cores are saturated, else ``rest_s``.
        """
        if self.predict() <= self.throughput_tps:
            return self
        lo, hi = 0.0, 4.0 if self.saturated else self.service_s
        for _ in range(24):
            middle = (lo + hi) / 2
            if self._slower(middle).predict() > self.throughput_tps:
                lo = middle
            else:
                hi = middle
        return self._slower((lo + hi) / 2)

    def _slower(self, by: float) -> ClosedLoop:
        if self.saturated:
            return replace(self, cpu_s=self.cpu_s * (1.0 + by))
        return replace(self, rest_s=by)

    def predict(
        self,
        *,
        sessions: float | None = None,
        flush: float = 1.0,
        cpu: float = 1.0,
        row: float = 1.0,
        shared: float = 1.0,
        data: float = 1.0,
    ) -> float:
        """Throughput in tps with this many sessions and each demand times its factor."""
        m = max(1.0, self.sessions if sessions is None else sessions)
        cpu_s = self.cpu_s * cpu * (1.0 - self.flush_cpu * (1.0 - min(1.0, flush)))
        flush_s = (
            self.flush_s
            * flush
            * _flushes_per_commit(m)
            / _flushes_per_commit(max(1.0, self.sessions))
        )
        shared_s = self.shared_s * shared * m / max(1.0, self.sessions)
        delay_s = flush_s + shared_s + self.data_s * data + self.rest_s
        hold_s = self._row_demand_s() * row * self._hold_factor(flush, cpu)
        return self._solve(m, cpu_s, delay_s, hold_s)

    def ratio(
        self,
        *,
        sessions: float | None = None,
        flush: float = 1.0,
        cpu: float = 1.0,
        row: float = 1.0,
        shared: float = 1.0,
        data: float = 1.0,
    ) -> float:
        """Return ``predict`` divided by the prediction without a change."""
        changed = self.predict(
            sessions=sessions, flush=flush, cpu=cpu, row=row, shared=shared, data=data
        )
        return changed / self.predict()

    @property
    def flush_cpu(self) -> float:
        """Part of the CPU time per transaction that flushes and waiting for them take."""
        of_service = self.flush_s / self.service_s
        return FLUSH_CPU * self.cpu_system_share * min(1.0, of_service / FLUSH_CPU_FULL)

    def _row_demand_s(self) -> float:
        """Time per transaction for which the hot rows are held, from the sessions waiting."""
        waiting = self.row_s * self.throughput_tps
        used = (math.sqrt(waiting * waiting + 4 * waiting) - waiting) / 2
        return used / self.throughput_tps

    def _hold_factor(self, flush: float, cpu: float) -> float:
        """Return the factor of the time for which row locks are held, flush included."""
        held_s = self.cpu_s + self.flush_s
        return (self.cpu_s * cpu + self.flush_s * flush) / held_s if held_s > 0 else 1.0

    def _solve(self, m: float, cpu_s: float, delay_s: float, hold_s: float) -> float:
        """Throughput of ``m`` sessions with these demands; between two whole numbers, linear."""
        whole = math.floor(m)
        low = self._solve_whole(whole, cpu_s, delay_s, hold_s)
        if whole == m:
            return low
        high = self._solve_whole(whole + 1, cpu_s, delay_s, hold_s)
        return low + (m - whole) * (high - low)

    def _solve_whole(self, m: int, cpu_s: float, delay_s: float, hold_s: float) -> float:
        """Iterates over the wait for rows; without rows that are hot, a single round."""
        throughput = self._repairman(m, cpu_s, delay_s)
        if hold_s <= 0:
            return throughput
        waiting = 0.0
        for _ in range(_ROUNDS):
            row_wait_s = hold_s * waiting * (m - 1) / m
            at_row = min(float(m), throughput * (hold_s + row_wait_s))
            waiting = (waiting + at_row) / 2
            before = throughput
            throughput = self._repairman(m, cpu_s, delay_s + hold_s * waiting * (m - 1) / m)
            if abs(throughput - before) < 1e-6 * throughput:
                break
        return throughput

    def _repairman(self, m: int, cpu_s: float, delay_s: float) -> float:
        """Return the machine-repairman model's throughput; weights are kept as logarithms."""
        import numpy as np

        demand_s = cpu_s / self._queue_cost(self.queue_now)
        if demand_s <= 0:
            return m / max(delay_s, 1e-9)
        j = np.arange(1, m + 1)
        costs = 1.0 + QUEUE_COST * np.log(np.clip(j / self.cores, 1.0, QUEUE_PER_CORE_MAX))
        rates = np.minimum(j, self.cores) / (demand_s * costs)
        if delay_s < 1e-9:
            return float(rates[-1])
        # From j - 1 to j sessions at the CPU: one of the others comes from its delay.
        weights = np.cumsum(np.log((m - j + 1) / (delay_s * rates)))
        highest = max(0.0, float(weights.max()))
        chances = np.exp(weights - highest)
        return float((chances * rates).sum() / (chances.sum() + math.exp(-highest)))

    def _queue_cost(self, queue: float) -> float:
        """Factor on the CPU demand with ``queue`` sessions running or ready."""
        per_core = min(max(1.0, queue / self.cores), QUEUE_PER_CORE_MAX)
        return 1.0 + QUEUE_COST * math.log(per_core)


def _flushes_per_commit(sessions: float) -> float:
    """Flushes that a commit waits for, the running one and its own, with this many sessions."""
    return 2.0 - 1.0 / sessions
