"""Prediction of a change's effect on throughput: a closed queueing model, fitted to measurements.

A session in service is at one of these stations, by the latency budget:

    CPU       ``cores`` servers with one queue. The demand D is the CPU time per transaction of the
              server and of the generator on the same host.
    flush     a delay. A commit that arrives while a flush is on its way waits for that one's end
              and then for its own, so the delay per commit grows from one flush with one session
              towards two with many: F(m) = F(1) (2 - 1/m), or as measured where the time of one
              flush is known. Commits in company share a flush, so it does not queue (group
              commit). The more commits, the more often one arrives during another's flush.
    row       a queue behind the holders of hot rows. From the measured waiters W the utilisation
              U of the row as a server follows by W = U^2 / (1 - U); holding overlaps with the other
              stations, so only the waiting counts as time.
    advisory  a queue behind the holder of an advisory lock, taken to be one lock. The utilisation
              U follows from the measured waiters W of m sessions, as few as those are: that of the
              machine-repairman model whose one server has W waiting. What is done while the lock
              is not held cannot gain where U is close to 1.
    lock      a delay: locks on tables and objects, which sessions outside the load hold, too.
    shared    a delay that grows with the sessions m: contention for locks in shared memory. Waiting
              for others' turns grows with m, and moving what they changed between cores with m^2
              in the Universal Scalability Law (N. J. Gunther, "Guerrilla Capacity Planning", 2007),
              so that beyond some m more sessions do less, and fewer do more. ``COHERENCE`` of the
              measured delay is taken to be of the second kind.
    data      a delay: reading and writing data files. Where the sessions wait in one queue for
              either of these two, ``rules/_client_counts.py`` says what fewer of them do.
    parallel  a delay: parallel workers, which start, compute and send their rows.
    replica   a delay: a standby's confirmation of the commit, for which rows stay locked too.
    idle      a delay: transactions that sleep or wait for their client, between their statements
              or within, for which rows stay locked too.
    woken     a delay: sessions that a flush has woken wait for a core, behind other programs too.
              It goes where commits do not wait at all.
    rest      a delay that makes the model give the measured throughput at today's sessions. Where
              the cores are saturated, a larger D does that.

With a queue at one station and delays at all others this is the machine-repairman model, which
has an exact solution: the chance of j sessions at the CPU is proportional to the product of
D/min(i,C) for i = 1..j times Z^(m-j)/(m-j)!, Z being the sum of the delays. The wait for rows,
which depends on the throughput, is found by iteration (others' queues as one session sees them are
(m-1)/m of all; Schweitzer). A fractional number of sessions lies between its neighbours.

Two effects that queueing alone does not have were calibrated on a 2-core machine:

    D grows for each factor of e that the queue for a core is longer than the cores, by
    ``QUEUED_TRIP_S`` for each round trip and ``QUEUED_SHARE`` of D: a session that had no core
    finds its caches filled by others. Thousands of transactions per second that wait for nothing,
    by pgbench with so many clients:

        clients                      2       4       8      16      32      64
        select by key              125     113      93      74      70      52
        TPC-B, seven round trips  17.6    16.2    10.2     9.4     7.4     5.6
        a sum of 40,000 rows     0.554   0.551   0.537   0.521   0.513   0.504

    On another day 16 clients did 8.7 of TPC-B and 2 did 12. Beyond ``QUEUE_PER_CORE_MAX`` sessions
    per core it grows no further: with TPC-B's few branches these wait for rows too.
    Without flushes a part of the system's CPU time per transaction goes, at most ``FLUSH_CPU``:
    system calls and two switches of context per commit. 2 sessions that wait for flushes needed 240
    us of CPU per transaction and 170 without, 16 needed 300 and 240, of which the kernel took 0.4
    to 0.5. Of drawn loads others needed less: 1.42, 1.34 and 1.28 times the throughput was measured
    where all of it predicts 1.73, 2.11 and 1.36, and none 1.22, 1.64 and 1.19. In full where
    flushing is at least ``FLUSH_CPU_FULL`` of the service. Reads and writes of data files also cost
    a system call and two switches each, and are taken for as much as flushes at most: without its
    temporary files, behind 2 ms each, a sort needed 0.42 ms of CPU instead of 1.26, of which the
    kernel took 0.34. Both share the part by the time that sessions wait for them.

Being woken costs CPU time, and a queue: a core leaves idleness or another program, and caches are
cold. One that is woken serves all that came meanwhile, so with n times the throughput a transaction
pays about 1/n of it. What it comes to is taken from the quickest executions of the statements,
which were not woken (``facts.wakeup_cost``). How far it falls, and what a queue for the cores costs
on other machines than the calibrated one, is not known: that is the interval of a prediction.
Findings are ranked by its cautious end.

Predicted ratios are the model changed over the model unchanged. They rank remedies and are shown
beside what a trial measures; nothing is kept because of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.stats.prediction import Prediction

QUEUED_TRIP_S = 5.5e-6
QUEUED_SHARE = 0.03
QUEUE_PER_CORE_MAX = 8.0
FLUSH_CPU = 0.6
FLUSH_CPU_FULL = 0.1
SYSTEM_SHARE_MAX = 0.5
"""Part of the CPU time that was the kernel's when these were calibrated; more of it is spent on
something else, such as connecting."""
COHERENCE = 0.25
"""Part of the contention for shared memory that grows with the square of the sessions. An estimate:
a load on many cores that waited for BufferMapping lost less than 5 % of its throughput from 768 to
192 sessions, where a delay that only grows with m would have lost what all its other delays gain
from company. It predicts at most 1.14 times the throughput for half of the sessions."""

_ROUNDS = 60
_CLOSE = 1e-3
"""Relative difference of throughputs that are the same."""


class Demands(TypedDict, total=False):
    """A change: the number of sessions, and the factor of each demand."""

    sessions: float
    flush: float
    flushes: float
    """Of their number; that of their time, ``flush``, unless given."""
    cpu: float
    row: float
    lock: float
    shared: float
    data: float
    parallel: float
    replica: float


class ClosedLoop(Struct, frozen=True):
    """Demands per transaction, in seconds, of ``sessions`` busy server sessions."""

    cores: float
    sessions: float
    throughput_tps: float
    cpu_s: float
    cpu_system_share: float = 0.0
    """Part of ``cpu_s`` that is the kernel's."""
    flush_s: float = 0.0
    row_s: float = 0.0
    advisory_s: float = 0.0
    until_commit: bool = True
    """True if advisory locks are held through the commit's flush, and a standby's answer."""
    lock_s: float = 0.0
    shared_s: float = 0.0
    data_s: float = 0.0
    parallel_s: float = 0.0
    replica_s: float = 0.0
    idle_s: float = 0.0
    rest_s: float = 0.0
    """Includes ``woken_s``."""
    woken_s: float = 0.0
    generator_woken_s: float = 0.0
    """Part of ``cpu_s`` that is spent on waking the generator, as it is today."""
    server_woken_s: float = 0.0
    """The same of the server's processes."""
    company_cpu_s: float = 0.0
    """CPU time of the round trips of a transaction, none of which has to be woken."""
    queued_s: float = 0.0
    """Part of ``rest_s``, ``woken_s`` included, for which statements took longer than their
    quickest executions without a wait that was seen."""
    flush_once_s: float = 0.0
    """Time of one flush; 0 if it is not known."""
    held_longer: float = 0.0
    """Part by which rows are held for longer than the waiting sessions say."""
    queue_cost: float = 0.0
    """Part by which ``cpu_s``, without a queue, grows for each factor of e of the queue per core,
    see ``queue_cost_of``."""
    queue_now: float = 0.0
    """Sessions that ran or were ready to run on average, as measured."""
    spare_cores: float = math.inf
    """Idle cores of the machine; infinite if not known."""
    flush_cpu_part: float = FLUSH_CPU / 2
    """Part of the system's CPU time that goes with all flushes."""
    saturated: bool = False
    """True if sessions queue for the cores, so that these explain the throughput."""

    @property
    def service_s(self) -> float:
        """Measured time in service."""
        return self.sessions / self.throughput_tps

    def fitted(self) -> ClosedLoop:
        """Return the model adjusted to the measured throughput if it predicts more.

        It increases the demand for CPU if the cores are saturated, else ``rest_s``. Where sessions
        wait for rows, no more than the time that no other part explains: beyond that, the rows are
        held for longer than the number of waiters says, which near a row's limit hardly grows.
        """
        if self.predict() <= self.throughput_tps:
            return self
        if self.saturated:
            return self._slowed(lambda by: replace(self, cpu_s=self.cpu_s * (1.0 + by)), 4.0)
        queues = self.row_s > 0 or self.advisory_s > 0
        rest_s_max = self._unexplained_s if queues else self.service_s
        rested = self._slowed(lambda by: replace(self, rest_s=by), rest_s_max)
        if self.row_s <= 0 or rested.predict() <= self.throughput_tps * (1.0 + _CLOSE):
            return rested
        return rested._slowed(lambda by: replace(rested, held_longer=by), 1.0)

    def _slowed(self, slower: Callable[[float], ClosedLoop], most: float) -> ClosedLoop:
        """Return ``slower`` of the number, up to ``most``, that gives the measured throughput."""
        lo, hi = 0.0, most
        for _ in range(24):
            middle = (lo + hi) / 2
            if slower(middle).predict() > self.throughput_tps:
                lo = middle
            else:
                hi = middle
        return slower((lo + hi) / 2)

    @property
    def waits_s(self) -> float:
        """Time in service that is spent on waits that were seen."""
        files_s = self.flush_s + self.data_s
        others_s = self.shared_s + self.parallel_s + self.replica_s + self.idle_s
        return files_s + others_s + self.row_s + self.advisory_s + self.lock_s

    @property
    def _unexplained_s(self) -> float:
        """Time in service that no part explains, queues for a core included."""
        return max(0.0, self.service_s - self.cpu_s - self.waits_s)

    def predict(self, **change: Unpack[Demands]) -> float:
        """Throughput in tps with each demand times its factor, where being woken costs the same."""
        return self._with(change)

    def _in_company(self, power: float, change: Demands) -> float:
        """Return ``predict`` where the cost of being woken falls with this power of the throughput,
        and the chance to meet another's flush rises with 2 - ``power`` of it.

        Fewer sessions have less company, so that both remain.
        """
        now, throughput = self.predict(), self.predict(**change)
        if change.get("sessions", self.sessions) < self.sessions:
            return throughput
        for _ in range(_ROUNDS):
            before, more = throughput, max(1.0, throughput / now)
            after = self._with(change, alone=more**-power, met=more ** (2.0 - power))
            throughput = math.sqrt(before * after)
            if abs(throughput - before) < _CLOSE * throughput:
                break
        return throughput

    def _with(self, change: Demands, *, alone: float = 1.0, met: float = 1.0) -> float:
        """Throughput where the part ``alone`` of the cost of being woken is left, and other's
        flushes are met ``met`` times as often."""
        m = max(1.0, change.get("sessions", self.sessions))
        flush, cpu = change.get("flush", 1.0), change.get("cpu", 1.0)
        data, replica = change.get("data", 1.0), change.get("replica", 1.0)
        cpu_s = self._cpu_left_s(change)
        woken_cpu_s = self.generator_woken_s + self.server_woken_s * min(1.0, cpu)
        woken_cpu_s = min(woken_cpu_s, max(0.0, cpu_s - self.company_cpu_s))
        flush_s = self.flush_s * flush * self._flushes(m, met) / self._flushes(self.sessions)
        shared = change.get("shared", 1.0) * _contention(m / max(1.0, self.sessions))
        delay_s = flush_s + self.shared_s * shared + self.data_s * data + self.idle_s
        delay_s += self.parallel_s * change.get("parallel", 1.0)
        delay_s += self.lock_s * change.get("lock", 1.0)
        delay_s += self.replica_s * replica + self._rest_left_s(flush, alone)
        row_s = self._row_demand_s() * change.get("row", 1.0) * self._hold_factor(change)
        advisory_s = self._advisory_demand_s * self._advisory_hold_factor(change)
        left_s = cpu_s - woken_cpu_s * (1.0 - alone)
        return self._solve(m, left_s, delay_s, (row_s, advisory_s))

    def _rest_left_s(self, flush: float, alone: float) -> float:
        """Return the part of ``rest_s`` that remains: its queues shrink as the cost of being woken
        does, and those behind a flush go with it."""
        woken_s = 0.0 if flush > 0 else min(self.woken_s, self.rest_s)
        queued_s = max(0.0, min(self.queued_s, self.rest_s) - woken_s)
        return self.rest_s - woken_s - queued_s * (1.0 - alone)

    def ratio(self, **change: Unpack[Demands]) -> Prediction:
        """Return ``predict`` divided by the prediction without a change, with its interval.

        At the cautious end the cost of being woken stays as it is, a queue for the cores costs
        ``queue_cost``, flushes take no CPU time, and the chance to meet another's flush rises with
        the square of the throughput. At the other end the cost of being woken falls with the
        square, the queue costs nothing, flushes take all of ``FLUSH_CPU``, and the chance stays.
        The guess is halfway; for fewer sessions, whose only gain is a shorter queue, it is the
        calibrated cost.
        """
        ratios = []
        fewer = change.get("sessions", self.sessions) < self.sessions
        for power in (0.0, 1.0, 2.0):
            loop = replace(
                self,
                queue_cost=self.queue_cost * (1.0 - power / 2.0),
                flush_cpu_part=FLUSH_CPU * power / 2.0,
            )
            ratio = loop._in_company(power, change) / loop.predict()
            if not fewer:  # Else a shorter queue takes less CPU time, too.
                bound = min(loop._cpu_bound(change, alone=power == 0.0), loop._lock_bound(change))
                ratio = min(ratio, max(1.0, bound))
            ratios.append(ratio)
        return Prediction(ratios[0 if fewer else 1], min(ratios), max(ratios))

    def _cpu_bound(self, change: Demands, *, alone: bool) -> float:
        """Return the ratio at which the cores are all busy, by their CPU time as measured; unless
        ``alone``, without what is spent on waking."""
        cpu_s = self._cpu_left_s(change)
        if not alone:
            cpu_s = max(self.company_cpu_s, cpu_s - self.generator_woken_s - self.server_woken_s)
        return self.cores / (cpu_s * self.throughput_tps) if cpu_s > 0 else math.inf

    def _lock_bound(self, change: Demands) -> float:
        """Return the ratio at which the advisory lock is always held."""
        used = self._advisory_demand_s * self._advisory_hold_factor(change) * self.throughput_tps
        return 1.0 / used if used > 0 else math.inf

    def _cpu_left_s(self, change: Demands) -> float:
        """Return the CPU time of a transaction with a change."""
        flushes = change.get("flushes", change.get("flush", 1.0))
        unwaited = self.flush_cpu * (1.0 - min(1.0, flushes))
        unwaited += self.data_cpu * (1.0 - min(1.0, change.get("data", 1.0)))
        return self.cpu_s * change.get("cpu", 1.0) * (1.0 - unwaited)

    def ratio_of_more(self, sessions: float) -> Prediction:
        """Return ``ratio`` with more sessions, which get no more CPU time than is idle today, and
        each do no more than one does today.

        Other programs may make room for them, but nothing measured tells how much.
        """
        used = self.throughput_tps * self.cpu_s
        bound = max(1.0, sessions / self.sessions)
        if used > 0:
            bound = min(bound, 1.0 + self.spare_cores / used)
        return self.ratio(sessions=sessions).limited(bound)

    def ratio_of_shorter_flushes(self, flush: float, cpu: float = 1.0) -> Prediction:
        """Return ``ratio`` with as many flushes as before, each taking ``flush`` of its time.

        None of the flushes goes away, so none of their CPU time does.
        """
        return self.ratio(flush=flush, flushes=1.0, cpu=cpu)

    @property
    def flush_cpu(self) -> float:
        """Part of the CPU time per transaction that flushes and waiting for them take."""
        return self.flush_cpu_part * self._waiting(self.flush_s)

    @property
    def data_cpu(self) -> float:
        """Part of the CPU time per transaction that reads and writes of data files take."""
        return FLUSH_CPU * self._waiting(self.data_s)

    def _waiting(self, waited_s: float) -> float:
        """Return the part of the CPU time that is the system's for ``waited_s`` of the waits for
        files."""
        all_s = self.flush_s + self.data_s
        if all_s <= 0:
            return 0.0
        full = min(1.0, all_s / self.service_s / FLUSH_CPU_FULL)
        return min(self.cpu_system_share, SYSTEM_SHARE_MAX) * full * waited_s / all_s

    def _flushes(self, m: float, met: float = 1.0) -> float:
        """Return the flushes that a commit waits for with ``m`` sessions, 1 to 2: the running one
        and its own. Where a flush was timed, at least as many as now with more sessions, and the
        running one ``met`` times as often."""
        usual = 2.0 - 1.0 / max(1.0, m)
        if self.flush_once_s <= 0 or self.sessions <= 1:
            return usual
        now = min(2.0, max(1.0, self.flush_s / self.flush_once_s))
        if m < self.sessions:
            return min(usual, now)
        more = max(usual, now) if m > self.sessions else now
        return min(2.0, 1.0 + (more - 1.0) * met)

    def _row_demand_s(self) -> float:
        """Time per transaction for which the hot rows are held, from the sessions waiting."""
        waiting = self.row_s * self.throughput_tps
        used = (math.sqrt(waiting * waiting + 4 * waiting) - waiting) / 2
        return used / self.throughput_tps * (1.0 + self.held_longer)

    @property
    def _advisory_demand_s(self) -> float:
        """Time per transaction for which the advisory lock is held, from the sessions waiting."""
        if self.advisory_s <= 0:
            return 0.0
        return used_part(self.advisory_s * self.throughput_tps, self.sessions) / self.throughput_tps

    def _hold_factor(self, change: Demands) -> float:
        """Return the factor of the time for which locks are held until the end of the commit."""
        parts = (
            (self.cpu_s, change.get("cpu", 1.0)),
            (self.flush_s, change.get("flush", 1.0)),
            (self.replica_s, change.get("replica", 1.0)),
            (self.idle_s, 1.0),
        )
        held_s = sum(each_s for each_s, _ in parts)
        return sum(each_s * factor for each_s, factor in parts) / held_s if held_s > 0 else 1.0

    def _advisory_hold_factor(self, change: Demands) -> float:
        """Return the factor of the time for which the advisory lock is held."""
        return self._hold_factor(change) if self.until_commit else change.get("cpu", 1.0)

    def _solve(self, m: float, cpu_s: float, delay_s: float, holds_s: Collection[float]) -> float:
        """Throughput of ``m`` sessions with these demands; between two whole numbers, linear."""
        whole = math.floor(m)
        low = self._solve_whole(whole, cpu_s, delay_s, holds_s)
        if whole == m:
            return low
        high = self._solve_whole(whole + 1, cpu_s, delay_s, holds_s)
        return low + (m - whole) * (high - low)

    def _solve_whole(
        self, m: int, cpu_s: float, delay_s: float, holds_s: Collection[float]
    ) -> float:
        """Iterates over the waits for locks; where none is waited for, a single round."""
        throughput = self._repairman(m, cpu_s, delay_s)
        holds_s = [hold_s for hold_s in holds_s if hold_s > 0]
        if not holds_s:
            return throughput
        at_locks, others = [0.0] * len(holds_s), (m - 1) / m
        for _ in range(_ROUNDS):
            for i, hold_s in enumerate(holds_s):
                at_lock = throughput * hold_s * (1.0 + at_locks[i] * others)
                at_locks[i] = (at_locks[i] + min(float(m), at_lock)) / 2
            waits_s = sum(
                hold_s * at * others for hold_s, at in zip(holds_s, at_locks, strict=True)
            )
            before = throughput
            throughput = self._repairman(m, cpu_s, delay_s + waits_s)
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
        costs = 1.0 + self.queue_cost * np.log(np.clip(j / self.cores, 1.0, QUEUE_PER_CORE_MAX))
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
        return 1.0 + self.queue_cost * _log_queue(queue, self.cores)


def queue_cost_of(cpu_s: float, round_trips: float, *, queue: float, cores: float) -> float:
    """Return ``ClosedLoop.queue_cost`` of a transaction that takes ``cpu_s`` of CPU time and so
    many round trips while ``queue`` sessions have or want a core."""
    grown, trips_s = _log_queue(queue, cores), QUEUED_TRIP_S * round_trips
    alone_s = (cpu_s - trips_s * grown) / (1.0 + QUEUED_SHARE * grown)
    return trips_s / max(alone_s, trips_s) + QUEUED_SHARE


@lru_cache(maxsize=8)
def used_part(waiting: float, sessions: float) -> float:
    """Return the utilisation of the one server behind which so many of ``sessions`` wait on
    average: they come to it after a delay, by the machine-repairman model."""
    m, used = max(2, round(sessions)), 0.0
    server = ClosedLoop(cores=1.0, sessions=m, throughput_tps=1.0, cpu_s=1.0)
    lo, hi = -12.0, 12.0  # logarithm of the delay, where the server takes 1 s
    for _ in range(40):
        middle = (lo + hi) / 2
        delay_s = math.exp(middle)
        used = server._repairman(m, 1.0, delay_s)
        if m - used * (1.0 + delay_s) > waiting:
            lo = middle
        else:
            hi = middle
    return used


def _log_queue(queue: float, cores: float) -> float:
    """Return the logarithm of the queue per core, as far as it counts."""
    return math.log(min(max(1.0, queue / cores), QUEUE_PER_CORE_MAX))


def _contention(relative: float) -> float:
    """Return the factor of the wait for shared memory with ``relative`` times the sessions."""
    return (1.0 - COHERENCE) * relative + COHERENCE * relative * relative
