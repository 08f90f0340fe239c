"""The facts about some slices of a run, read once from its run file.

The slices should be under one and the same change; facts are taken over all of them together.
A fact that the run does not hold raises ``Skip`` when it is read, so that a rule need not test
for it.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from pgdyno.dimension import fields_with
from pgdyno.facts._resources import HostCpu, Wal
from pgdyno.facts.front import (
    NO_FRONT,
    ForeignFront,
    FrontInForce,
    FrontLoad,
    database_in_service,
    foreign_front,
    front_load,
    front_of,
)
from pgdyno.facts.groups import GroupAccount, MeasuredGroup, gap_ms, group_accounts
from pgdyno.facts.observed import is_observed
from pgdyno.facts.pooler import PoolerInForce, PoolerQueues, pooler_of, pooler_queues
from pgdyno.json_types import Fields
from pgdyno.probe.gaps import NOT_SAMPLED
from pgdyno.record.events import probe_events
from pgdyno.record.fileformat import CLIENT_BACKEND, CLIENT_BACKENDS
from pgdyno.record.finding import Evidence, Lack, Skip, Window
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import ActiveSettings
from pgdyno.spec.units import parse_duration_ms
from pgdyno.wait_events import IN_TRANSACTION, WaitClass, wait_class

if TYPE_CHECKING:
    from pgdyno.record import LockQueueTotal, RunFile, StatementTotal, WaitTotal

QUEUE_TIMES = 2.0
"""Factor for work that comes in bursts, on the sessions at the cores by queueing theory."""
QUEUED_BUSY_SHARE = 0.7
"""Part of the cores at work from which on sessions queue for one at times."""


class Facts:
    """The facts of ``slice_ids`` of ``run``. Attributes are worked out when first asked for."""

    def __init__(self, run: RunFile, slice_ids: list[int]) -> None:
        self.run = run
        self.slice_ids = slice_ids

    # -- the period of the run -------------------------------------------------------------------

    @cached_property
    def window_ms(self) -> Window:
        """Window from the first slice's start to the last one's end."""
        chosen = [part for part in self.run.slices() if part.id in set(self.slice_ids)]
        if not chosen:
            raise Skip("the run file does not contain this slice")
        ended = [part.ended_ms for part in chosen if part.ended_ms is not None]
        last = max(ended) if ended else max(part.started_ms for part in chosen)
        return min(part.started_ms for part in chosen), last

    @cached_property
    def is_observed(self) -> bool:
        """True if the load is that of others, which only the server counted."""
        return is_observed(self.run)

    @cached_property
    def change(self) -> Change:
        """The change of the slices from the spec."""
        chosen = [part for part in self.run.slices() if part.id in set(self.slice_ids)]
        return Change.from_json(chosen[-1].change) if chosen else Change()

    @cached_property
    def seconds(self) -> float:
        """Measured time, more than zero."""
        seconds = self.run.seconds(self.slice_ids)
        if seconds <= 0:
            raise Skip("no interval was recorded")
        return seconds

    @cached_property
    def throughput_tps(self) -> float:
        """Transactions done per second, more than zero."""
        done = self.run.ledger(self.slice_ids).done
        if done <= 0:
            if self.is_observed:
                raise Skip(f"the server did no transaction in the {self.seconds:.0f} s watched")
            raise Skip("no transaction was done")
        return done / self.seconds

    def evidence(
        self, name: str, value: float | str | None, unit: str, threshold: str | None = None
    ) -> Evidence:
        """Evidence with one number for the whole period."""
        return Evidence(
            name=name, value=value, unit=unit, threshold=threshold, window_ms=self.window_ms
        )

    # -- what was configured ---------------------------------------------------------------------

    @cached_property
    def settings(self) -> ActiveSettings:
        """Server settings as they were in force."""
        at_start = self.run.run.server.get("settings", {})
        return ActiveSettings({**at_start, **self.change.settings})

    @property
    def protocol(self) -> str:
        """Protocol of the load's statements: simple, extended or prepared; '' if not recorded, as
        of a web server of the user's."""
        if self.front is not None:
            return "prepared" if self.front.prepares_from else "extended"
        if self.is_http:
            return ""
        load = fields_with(self.run.run.spec, self.change).get("load") or {}
        return str(load.get("protocol") or "")

    @cached_property
    def pooler(self) -> PoolerInForce | None:
        """The pooler that pgdyno started for these slices; None without one."""
        return pooler_of(self.run, self.change)

    @property
    def is_pooled(self) -> bool:
        """True if clients connect to a pooler, one that pgdyno started or the user's own."""
        return self.pooler is not None or bool(self.run.run.server.get("entrance_uri"))

    @cached_property
    def pooler_queues(self) -> PoolerQueues:
        """The queues of that pooler. Raises Skip if they were not sampled."""
        queues = pooler_queues(self.run, self.slice_ids)
        if not queues.seen:
            raise Skip(self._why_missing("pooler", "the queues of the pooler were not recorded"))
        return queues

    @property
    def is_http(self) -> bool:
        """True if the clients send requests to a web server: their statements are not SQL."""
        return bool(self.run.run.spec.get("http") is not None)

    @cached_property
    def front(self) -> FrontInForce | None:
        """The front end that pgdyno started for these slices; None without one."""
        return front_of(self.run, self.change)

    @cached_property
    def foreign_front(self) -> ForeignFront | None:
        """Figures of a web server of the user's; None without them."""
        own = not self.is_http or self.front is not None
        return None if own else foreign_front(self.run, self.slice_ids)

    @cached_property
    def front_load(self) -> FrontLoad:
        """Work of that front end. Raises Skip without one, or if its counts were not recorded."""
        if self.front is None:
            raise Skip(NO_FRONT)
        return front_load(self.run, self.slice_ids)

    @cached_property
    def statements_per_s(self) -> float:
        """Statements that the server executed for the load per second."""
        if self.front is not None:
            return self.front_load.requests_s * self.front_load.mean("statements")
        return sum(each.done for each in self.statements) / self.seconds

    def can(self, capability: str) -> bool:
        """True if the server was built with ``capability``: lz4, zstd, …"""
        return bool(self.run.run.server.get("capabilities", {}).get(capability))

    @property
    def server_version_num(self) -> int:
        """PostgreSQL's server_version_num; 0 if unknown."""
        return int(self.run.run.server.get("version_num") or 0)

    @cached_property
    def cores(self) -> float:
        """Cores that the server may use: a fraction where a container's quota says so."""
        host = self.run.run.host
        known = host.get("cores") if host.get("same_host_as_server", True) else None
        known = known or self.run.run.server.get("cores")
        if not known:
            raise Skip("the number of cores of the server's machine is not known", Lack.CORES)
        return float(known)

    @cached_property
    def cores_of_machine(self) -> float:
        """Cores of the machine, of which the server may use a part; ``cores`` if not recorded."""
        return float(self.run.run.host.get("cores_host") or self.cores)

    @cached_property
    def cores_to_use(self) -> float:
        """``cores``; without a limit where only the server saw the load and cannot tell them."""
        try:
            return self.cores
        except Skip:
            if self.is_observed:
                return math.inf
            raise

    @cached_property
    def groups(self) -> list[MeasuredGroup]:
        """The client groups that did something."""
        spec = fields_with(self.run.run.spec, self.change)
        groups = [self._group(fields) for fields in spec.get("clients", [])]
        return [group for group in groups if group.throughput_tps > 0]

    def group(self, name: str) -> MeasuredGroup:
        """Return the client group of that name, which did something."""
        return next(group for group in self.groups if group.name == name)

    def _group(self, fields: Fields) -> MeasuredGroup:
        name = fields["name"]
        response = self.run.histogram("response", self.slice_ids, group=name)
        pool_wait = self.run.histogram("pool_wait", self.slice_ids, group=name)
        service = self.run.histogram("service", self.slice_ids, group=name)
        mine = [each for each in self.statements if each.client_group == name]
        return MeasuredGroup(
            name=name,
            clients=fields["count"],
            instances=fields.get("instances", 1),
            pool_max=(fields.get("pool") or {}).get("max"),
            response_ms=response.mean / 1e6,
            pool_wait_ms=pool_wait.mean / 1e6,
            connect_ms=self.run.histogram("connect", self.slice_ids, group=name).mean / 1e6,
            service_ms=service.mean / 1e6,
            between_statements_ms=gap_ms(service, mine),
            think_ms=parse_duration_ms(fields.get("think") or 0),
            throughput_tps=service.count / self.seconds,
        )

    @cached_property
    def accounts(self) -> list[GroupAccount]:
        """The account of each client group."""
        return group_accounts(self.run, self.slice_ids)

    @property
    def has_open_loop(self) -> bool:
        """True if any group has a fixed rate."""
        return any(account.arrival is not None for account in self.accounts)

    @property
    def sessions_max(self) -> int:
        """The most server sessions that the clients can keep busy."""
        most = sum(group.sessions_max for group in self.groups)
        return most if self.front is None else min(most, self.front.pool_max)

    # -- what the sessions did -------------------------------------------------------------------

    @cached_property
    def waits(self) -> list[WaitTotal]:
        """Average backends by state, wait event and statement, the largest first."""
        sampled = self.run.waits(self.slice_ids)
        if not sampled:
            raise Skip(self._why_missing("wait", NOT_SAMPLED["waits"]))
        return sampled

    @cached_property
    def samplings(self) -> int:
        """Number of times that the states of the sessions were read."""
        return self.run.samplings(self.slice_ids)

    @cached_property
    def by_event(self) -> dict[tuple[str, str], float]:
        """Average client sessions in a transaction by (wait event type, wait event)."""
        averages: dict[tuple[str, str], float] = {}
        for wait in self.waits:
            if wait.backend_type == CLIENT_BACKEND and wait.state in IN_TRANSACTION:
                idle = wait.state != "active"
                key = ("Client", "ClientRead") if idle else (wait.wait_event_type, wait.wait_event)
                averages[key] = averages.get(key, 0.0) + wait.average
        return averages

    @property
    def sessions_were_sampled(self) -> bool:
        """True if the states of client sessions were recorded, were they ever so idle.

        The server shows no state of another role's sessions without the rights of pg_monitor.
        """
        try:
            return any(
                wait.backend_type == CLIENT_BACKEND and wait.state and wait.average > 0
                for wait in self.waits
            )
        except Skip:
            return False

    @cached_property
    def by_class(self) -> dict[WaitClass, float]:
        """Average client sessions in a transaction by class."""
        classes: dict[WaitClass, float] = {}
        for (kind, event), average in self.by_event.items():
            found = wait_class("active", kind, event)
            if found is not None:
                classes[found] = classes.get(found, 0.0) + average
        return classes

    def sessions(self, *classes: WaitClass) -> float:
        """Average client sessions of these classes together."""
        return sum(self.by_class.get(name, 0.0) for name in classes)

    @property
    def sessions_at_work(self) -> float:
        """Average client sessions in a transaction."""
        return sum(self.by_class.values())

    def part(self, *classes: WaitClass) -> float:
        """Part of the client sessions in a transaction that are of these classes, 0 to 1."""
        total = self.sessions_at_work
        return self.sessions(*classes) / total if total > 0 else 0.0

    def top_event(self, *classes: WaitClass) -> tuple[str, float] | None:
        """Return the most frequent wait event of ``classes``, ``type:event``, and its sessions."""
        of_classes = self.events_of(*classes)
        return max(of_classes.items(), key=lambda item: item[1]) if of_classes else None

    def events_of(self, *classes: str) -> dict[str, float]:
        """Return the wait events of ``classes``, ``type:event``, with their average sessions."""
        return {
            f"{kind}:{event}": average
            for (kind, event), average in self.by_event.items()
            if kind and wait_class("active", kind, event) in classes
        }

    @cached_property
    def lock_queues(self) -> list[LockQueueTotal]:
        """Queues for heavyweight locks, the longest first."""
        return self.run.lock_queues(self.slice_ids)

    def statements_waiting(self, *classes: WaitClass) -> list[str]:
        """Return the statements sampled in these classes, the most frequent first."""
        sessions: dict[str, float] = {}
        for wait in self.waits:
            found = wait_class(wait.state, wait.wait_event_type, wait.wait_event)
            if wait.backend_type == CLIENT_BACKEND and wait.statement and found in classes:
                sessions[wait.statement] = sessions.get(wait.statement, 0.0) + wait.average
        return sorted(sessions, key=lambda text: -sessions[text])

    # -- what the machine did --------------------------------------------------------------------

    @cached_property
    def cpu(self) -> HostCpu:
        """The CPU that the server may use, by the kernel's own count."""
        machine = self._machine_cpu
        return machine if machine.cores <= self.cores else self._within_quota(machine)

    @cached_property
    def _machine_cpu(self) -> HostCpu:
        """The CPU of the whole machine, of which a container may use a part."""
        parts = {
            name: self.run.delta("metric_host", f"cpu_{name}_ms", self.slice_ids)
            for name in ("user", "system", "iowait", "steal", "idle")
        }
        total = sum(value or 0.0 for value in parts.values())
        if total <= 0:
            raise Skip(self._why_missing("host", "the host's CPU was not recorded"))
        cores = self.cores_of_machine
        return HostCpu(cores, **{n: (v or 0.0) / total * cores for n, v in parts.items()})

    def _within_quota(self, machine: HostCpu) -> HostCpu:
        """Return the usage of the cores of a server that may use fewer than the machine has.

        The load's own processes are at work, and others on what is neither theirs nor idle; both
        are split into user and system like the machine's.
        """
        own = min(self.own_cores or machine.busy, self.cores)
        idle = min(self.cores - own, machine.idle + machine.iowait)
        system = (self.cores - idle) * machine.system_share
        return HostCpu(self.cores, self.cores - idle - system, system, 0.0, 0.0, idle)

    @cached_property
    def own_cores(self) -> float | None:
        """Cores that the server, the generator and a front end use; None if not recorded."""
        if self.server_cores is None:
            return None
        return self.server_cores + self.generator_cores + self._front_cores

    @property
    def _front_cores(self) -> float:
        return 0.0 if self.front is None else self.front_load.jvm_cores

    @cached_property
    def generator_cores(self) -> float:
        """Cores that the load generator kept busy."""
        series = self.run.series("metric_generator", self.slice_ids)
        used_us = series["cpu_user_us"].sum() + series["cpu_system_us"].sum()
        return float(used_us) / 1e6 / self.seconds

    def process_cores(self, *roles: str) -> float | None:
        """Cores that the server's processes of ``roles`` kept busy; None if not recorded."""
        used = self._of_processes(roles, "cpu_user_ms", "cpu_system_ms")
        return None if used is None else max(0.0, used)

    def process_queue(self, *roles: str) -> float | None:
        """Return how many of the server's processes of ``roles`` were ready and without a core on
        average, by the kernel's clock; None if not recorded."""
        return self._of_processes(roles, "run_queue_delay_ms")

    def _of_processes(self, roles: tuple[str, ...], *columns: str) -> float | None:
        """Return the time of processes per time; None if not recorded."""
        ms = [
            self.run.delta("metric_process", column, self.slice_ids, where={"role": role})
            for role in roles
            for column in columns
        ]
        known = [value for value in ms if value is not None]
        return sum(known) / 1000 / self.seconds if known else None

    @cached_property
    def server_cores(self) -> float | None:
        """Cores that all of the server's processes kept busy; None if not recorded."""
        roles = set(self.run.series("metric_process", self.slice_ids)["role"])
        return self.process_cores(*sorted(map(str, roles - {"pgdyno"})))

    @cached_property
    def wal(self) -> Wal:
        """WAL written, by the server's own count."""
        counters = {
            name: self.run.delta("metric_wal", name, self.slice_ids)
            for name in (
                *("wal_bytes", "wal_records", "wal_fpi", "wal_fpi_bytes"),
                "wal_buffers_full",
            )
        }
        written = counters["wal_bytes"]
        if written is None:
            written = self.run.delta("metric_wal", "insert_lsn_bytes", self.slice_ids)
        if written is None:
            raise Skip(self._why_missing("wal", "the server's WAL counters were not recorded"))
        return Wal(
            bytes=written,
            records=counters["wal_records"],
            full_page_images=counters["wal_fpi"],
            image_bytes=counters["wal_fpi_bytes"],
            syncs=self.run.delta("metric_wal", "wal_sync", self.slice_ids),
            sync_ms=self.run.delta("metric_wal", "wal_sync_time_ms", self.slice_ids),
            buffers_full=counters["wal_buffers_full"],
        )

    @cached_property
    def runnable(self) -> float:
        """Client sessions that run or are ready to, on average.

        Sampled sessions alone are not sufficient: a session that was woken shows its old wait event
        until it gets a core, so on busy cores sessions in the run queue seem to wait for their
        client, or to be idle. The kernel knows, in two ways, of which the larger counts. Its clock
        of each process has the time on a core and the time ready without one. And it counts
        runnable processes; pgdyno's and the server's share of them is assumed to be their share of
        the CPU time (equal weights get equal time), less the generator and the process that reads
        the count, and at most ``QUEUE_TIMES`` what the cores' idle time lets a queue be (M/M/1).
        Where cores are less busy than ``QUEUED_BUSY_SHARE`` its clocks alone count: what runs at
        the moment of counting is more than usual then. Both are limited to the sessions in service
        that do not wait for something else; by their clock, which also runs while a session is
        woken from another wait, no client is between two statements meanwhile.
        """
        used, queue = self.process_cores(*CLIENT_BACKENDS), self.process_queue(*CLIENT_BACKENDS)
        if used is None or queue is None:
            return self._runnable_by_count
        between = (self.between_statements_ms or 0.0) * self.throughput_tps / 1000
        by_clock = min(used + queue, max(used, self.not_waiting - between))
        if self.cpu_if_recorded and self._machine_cpu.busy_share < QUEUED_BUSY_SHARE:
            return min(by_clock, self.not_waiting)
        return min(max(by_clock, self._runnable_by_count), self.not_waiting)

    @property
    def _runnable_by_count(self) -> float:
        """The same by the kernel's count of runnable processes; as sampled without one."""
        # The count is the whole machine's, whatever part of it the server may use.
        busy = 0.0 if self.cpu_if_recorded is None else self._machine_cpu.busy
        counts = self.run.series("metric_host", self.slice_ids)["procs_running"]
        counts = counts[counts == counts]  # without NaN, which stands for NULL
        if self.own_cores is None or not counts.size or busy <= 0:
            return self.sessions("cpu")
        own_cores, used = self.own_cores - self._front_cores, self.process_cores(*CLIENT_BACKENDS)
        ours = max(0.0, float(counts.mean()) - 1.0) * min(1.0, own_cores / busy)
        queued = max(ours - self._generator_runnable, used or 0.0)
        if used and (idle := 1.0 - busy / self._machine_cpu.cores) > 0.0:
            queued = min(queued, QUEUE_TIMES * used / idle)
        return min(queued, self.not_waiting)

    @cached_property
    def in_service(self) -> float:
        """Connections at work on average, by Little's law, or as seen if that is more."""
        if self.front is not None:
            at_work, idle = self.sessions_at_work, self.sessions("client")
            return database_in_service(self.front_load, at_work, idle)
        service = self.run.histogram("service", self.slice_ids)
        return max(self.sessions_at_work, service.count * service.mean / 1e9 / self.seconds)

    @cached_property
    def statements(self) -> list[StatementTotal]:
        """Each statement of each script with its service times."""
        return self.run.statements(self.slice_ids)

    @cached_property
    def between_statements_ms(self) -> float | None:
        """Mean time of a transaction from an answer to the next statement; None if unknown."""
        if self.is_observed:
            return None
        return gap_ms(self.run.histogram("service", self.slice_ids), self.statements)

    @cached_property
    def overlapping_groups(self) -> frozenset[str]:
        """Groups whose statements overlap: they are sent in a pipeline and answered together."""
        if self.is_observed:
            return frozenset()
        timed = {each.client_group for each in self.statements}
        return frozenset(
            group.name
            for group in self.groups
            if group.name in timed and group.between_statements_ms is None
        )

    @property
    def not_waiting(self) -> float:
        """Working connections except those sampled as waiting for anything but their client."""
        return self.in_service - self.sessions_at_work + self.sessions("cpu", "client")

    @cached_property
    def _generator_runnable(self) -> float:
        """Threads of the generator that run or are ready to, on average."""
        total = self.run.generator(self.slice_ids)
        busy_us = total.cpu_user_us + total.cpu_system_us + total.run_queue_delay_us
        return busy_us / 1e6 / self.seconds

    @property
    def cpu_if_recorded(self) -> HostCpu | None:
        """``cpu``, None where it is not there."""
        try:
            return self.cpu
        except Skip:
            return None

    @property
    def wal_if_recorded(self) -> Wal | None:
        """``wal``, None where it is not there."""
        try:
            return self.wal
        except Skip:
            return None

    def _why_missing(self, probe: str, otherwise: str) -> str:
        """Return the reasons that the probes gave for not running."""
        for event in probe_events(self.run, probe):
            return f"{otherwise}: {event.detail.get('reason') or event.label}"
        return otherwise
