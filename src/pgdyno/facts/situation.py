"""The facts of some slices that rules judge, and what they come to together: the latency budget,
and the prediction model that is fitted to both."""

from __future__ import annotations

import math
from functools import cached_property

from msgspec.structs import replace

from pgdyno.facts._resources import HostCpu
from pgdyno.facts.budget import Part, ResponseTimeBudget, latency_budget
from pgdyno.facts.client_sessions import SHORT_LIVED_MAX, transactions_per_connection
from pgdyno.facts.flush import delay_ms, sync_time
from pgdyno.facts.model import ClosedLoop, queue_cost_of
from pgdyno.facts.sessions import SPARE_SHARE
from pgdyno.facts.slices import Facts
from pgdyno.facts.wakeup_cost import with_waking
from pgdyno.record.fileformat import PARALLEL_WORKER
from pgdyno.spec.sql_text import is_commit, locks_until_commit
from pgdyno.wait_events import DATA, SHARED

FLUSH_PARTS: tuple[Part, ...] = ("flush", "images", "commit delay")
QUEUES_SEEN_MIN = 10
"""Looks at queues for advisory locks that tell whether they are held through a COMMIT: behind one
held for a quarter of its time in COMMIT, none of ten would see that once in 18 times."""
_AT_COMMIT: tuple[Part, ...] = ("replica", "lock")
"""Waits of a COMMIT other than for its flush: for a standby, and for the lock of NOTIFY."""


def fitted_loop(s: Facts, budget: ResponseTimeBudget) -> ClosedLoop:
    """Return the model of ``s`` with the latency budget ``budget``.

    The CPU demand is what the server and the generator use; where processes cannot be seen, all
    that is busy is theirs; where the host cannot be seen either, sessions seen running stand in.
    """
    cpu, per_second = s.cpu_if_recorded, s.throughput_tps
    seconds = {name: ms / 1000 for name, ms in budget.parts_ms.items()}
    sessions = max(1.0, s.in_service)
    # The model has no fewer than one session, which is then at work all the time.
    tps = per_second * sessions / s.in_service if s.in_service > 0 else per_second
    busy = (
        min(s.runnable, s.cores_to_use) if cpu is None else min(cpu.busy, s.own_cores or cpu.busy)
    )
    cores = s.cores_to_use if cpu is None else _cores_to_get(cpu, busy, s.runnable, sessions)
    round_trips = max(1.0, s.statements_per_s / per_second)
    queue = queueing_sessions(s, budget)
    workers = s.process_cores(PARALLEL_WORKER) or 0.0
    loop = ClosedLoop(
        cores=cores,
        sessions=sessions,
        throughput_tps=tps,
        cpu_s=busy / per_second,
        cpu_system_share=_system_share(s, budget),
        flush_s=sum(seconds.get(part, 0.0) for part in FLUSH_PARTS),
        row_s=seconds.get("row", 0.0),
        advisory_s=seconds.get("advisory", 0.0),
        until_commit=_holds_until_commit(s),
        lock_s=seconds.get("relation", 0.0) + seconds.get("lock", 0.0),
        shared_s=sum(seconds.get(part, 0.0) for part in SHARED),
        data_s=sum(seconds.get(part, 0.0) for part in DATA),
        parallel_s=max(0.0, seconds.get("parallel", 0.0) - workers / per_second),
        replica_s=seconds.get("replica", 0.0),
        woken_s=_woken_ms(s, budget) / 1000,
        flush_once_s=_flush_once_ms(s) / 1000,
        idle_s=sum(seconds.get(part, 0.0) for part in _idle_parts(s)),
        queue_cost=queue_cost_of(busy / per_second, round_trips, queue=queue, cores=cores),
        queue_now=queue,
        spare_cores=math.inf if cpu is None else cpu.cores * cpu.idle_share,
        saturated=cpu is not None and cpu.idle_share < SPARE_SHARE and queue >= s.cores,
    )
    return with_waking(loop, s).fitted()


def _system_share(s: Facts, budget: ResponseTimeBudget) -> float:
    """Return the kernel's part of the CPU time, without connecting: that a process begins and ends
    is the kernel's work, and more of it than the clients wait for. None is known to be left where
    their connections are hardly worth making."""
    each, cpu = transactions_per_connection(s), s.cpu_if_recorded
    if cpu is None or (each is not None and each <= SHORT_LIVED_MAX):
        return 0.0
    return cpu.system_share * (1.0 - budget.own_share("connecting"))


def queueing_sessions(s: Facts, budget: ResponseTimeBudget) -> float:
    """Return the clients' sessions that have a core or wait for one, on average, by the budget;
    more than ``runnable`` where those count that are seen idle in the queue."""
    return max(s.runnable, s.in_service * budget.service_share("running", "ready"))


def _holds_until_commit(s: Facts) -> bool:
    """True unless advisory locks are seen to be released before the COMMIT of the scripts: those of
    sessions, behind whose holders at COMMIT nobody is seen to wait."""
    queues = [each for each in s.lock_queues if each.lock_type == "advisory"]
    texts = [each.blocker or "" for each in queues]
    of_transactions = any(locks_until_commit(each.waiting_statement or "") for each in queues)
    commits = any(is_commit(each.statement) for each in s.statements)
    known = commits and sum(each.seen for each in queues) >= QUEUES_SEEN_MIN
    return not known or of_transactions or any(is_commit(text) for text in texts)


def _flush_once_ms(s: Facts) -> float:
    """Return the time of one flush, its commit_delay included; 0 if it is not known."""
    sync = sync_time(s)
    return 0.0 if sync is None else sync.ms + delay_ms(s)


def _idle_parts(s: Facts) -> tuple[Part, ...]:
    """Return the parts in which nothing is done. On busy cores, sessions that seem to wait for
    their client may wait for a core: without the clients' own times nobody knows."""
    return ("sleep",) if s.between_statements_ms is None else ("sleep", "client", "pause")


def _woken_ms(s: Facts, budget: ResponseTimeBudget) -> float:
    """Return the time of a transaction that its COMMIT takes beyond the flush: as far as it exceeds
    that of the quickest other statement, it is a queue for a core, of a session that was woken.

    0 for scripts without a COMMIT of their own, whose statements do other work as well.
    """
    done = s.throughput_tps * s.seconds
    timed = [(each, each.service.mean / 1e6) for each in s.statements if each.service.count]
    commits_ms = sum(
        ms * each.service.count / done for each, ms in timed if is_commit(each.statement)
    )
    others_ms = [ms for each, ms in timed if not is_commit(each.statement)]
    if s.is_http or not commits_ms or not others_ms or s.overlapping_groups or s.is_observed:
        return 0.0
    flush_ms = sum(budget.parts_ms.get(part, 0.0) for part in FLUSH_PARTS)
    waited_ms = flush_ms + sum(budget.parts_ms.get(part, 0.0) for part in _AT_COMMIT)
    return max(0.0, commits_ms - waited_ms - min(others_ms))


def _cores_to_get(cpu: HostCpu, used: float, runnable: float, sessions: float) -> float:
    """Cores that ``sessions`` can get from other programs on the machine, which compete as equals.

    As many rivals are taken to be there as explain what the load's runnable processes get now; at
    least one for each core that others use. All the cores, where there are no others.
    """
    rivals = cpu.busy - used
    if cpu.idle_share < SPARE_SHARE and used > 0:
        rivals = max(rivals, runnable * (cpu.cores / used - 1.0))
    return max(used, cpu.cores * sessions / (sessions + rivals), 1e-3)


class Situation(Facts):
    """The facts, where the time went, and the model fitted to both."""

    @cached_property
    def budget(self) -> ResponseTimeBudget:
        """The latency budget of the mean transaction."""
        return latency_budget(self)

    @cached_property
    def loop(self) -> ClosedLoop:
        """The model that predicts what changes would do."""
        return fitted_loop(self, self.budget)

    @cached_property
    def loop_of_clients(self) -> ClosedLoop:
        """The model of more clients, for whose sessions connecting is a delay like any other, and
        its CPU time theirs."""
        connecting = self._clients_in("connecting")
        if not connecting:
            return self.loop
        sessions = max(1.0, self.in_service + connecting)
        loop = replace(self.loop, sessions=sessions, throughput_tps=self.throughput_tps, rest_s=0.0)
        return loop.fitted()

    @property
    def queueing(self) -> float:
        """See ``queueing_sessions``."""
        return queueing_sessions(self, self.budget)

    @property
    def on_the_way(self) -> float:
        """Clients that connect or wait for a connection, on average."""
        return self._clients_in("pool wait", "connecting")

    def _clients_in(self, *parts: Part) -> float:
        """Return the clients in parts of the response time on average, by Little's law."""
        spent_ms = sum(self.budget.parts_ms.get(part, 0.0) for part in parts)
        return self.throughput_tps * spent_ms / 1000
