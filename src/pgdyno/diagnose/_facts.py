"""The facts about some slices of a run, read once from its run file.

The slices should be under one and the same change; facts are taken over all of them together.
A fact that the run does not hold raises ``Skip`` when it is read, so that a signature need not test
for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pgdyno.diagnose._waits import IN_TRANSACTION, WaitClass, wait_class
from pgdyno.diagnose.finding import Evidence, Skip, Window
from pgdyno.diagnose.groups import GroupAccount, group_accounts
from pgdyno.dimension import fields_with
from pgdyno.probe.gaps import NOT_SAMPLED
from pgdyno.spec.active_settings import ActiveSettings
from pgdyno.spec.change import Change

if TYPE_CHECKING:
    from pgdyno.record import RunFile

CLIENT_BACKEND = "client backend"


@dataclass(frozen=True)
class Group:
    """A client group as it was while the slices lasted."""

    name: str
    clients: int
    pool_max: int | None
    response_ms: float
    pool_wait_ms: float
    service_ms: float
    throughput_tps: float

    @property
    def in_service(self) -> float:
        """Connections at work on average, by Little's law."""
        return self.throughput_tps * self.service_ms / 1000

    @property
    def sessions_max(self) -> int:
        """The most server sessions that the group can keep busy."""
        return self.clients if self.pool_max is None else min(self.clients, self.pool_max)


@dataclass(frozen=True)
class HostCpu:
    """The host's CPU over the slices, in cores: the fields add up to ``cores``."""

    cores: float
    user: float
    system: float
    iowait: float
    steal: float
    idle: float

    @property
    def busy(self) -> float:
        """Cores at work, those that the hypervisor took away included."""
        return self.user + self.system + self.steal

    @property
    def busy_share(self) -> float:
        """``busy`` as a part of all cores."""
        return self.busy / self.cores

    @property
    def system_share(self) -> float:
        """The kernel's part of the time at work."""
        working = self.user + self.system
        return self.system / working if working > 0 else 0.0

    @property
    def idle_share(self) -> float:
        """Part of the cores with nothing to run; waiting for a disk is nothing to run."""
        return max(0.0, 1.0 - self.busy_share)


@dataclass(frozen=True)
class Wal:
    """WAL written over the slices."""

    bytes: float
    records: float | None
    full_page_images: float | None
    syncs: float | None
    sync_ms: float | None
    buffers_full: float | None

    @property
    def per_sync_ms(self) -> float | None:
        """Time of one sync; None without track_wal_io_timing."""
        return self.sync_ms / self.syncs if self.sync_ms and self.syncs else None

    @property
    def full_page_bytes(self) -> float | None:
        """Estimated bytes of full-page images.

        An image is a page of 8 kB without its hole; what is left for it is the WAL beyond the
        records themselves, whose typical length of about 80 bytes is calibrated by injection.
        """
        if self.full_page_images is None or self.records is None:
            return None
        beyond_records = max(0.0, self.bytes - 80.0 * self.records)
        return min(8192.0 * self.full_page_images, beyond_records)


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
            raise Skip("no transaction was done")
        return done / self.seconds

    def evidence(
        self, name: str, value: float | str | None, unit: str, threshold: str | None = None
    ) -> Evidence:
        """Evidence with one number for the whole period."""
        return Evidence(name, value, unit, threshold, self.window_ms)

    # -- what was configured ---------------------------------------------------------------------

    @cached_property
    def settings(self) -> ActiveSettings:
        """Server settings as they were in force."""
        at_start = self.run.run.server.get("settings", {})
        return ActiveSettings({**at_start, **self.change.settings})

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
            raise Skip("the number of cores of the server's machine is not known")
        return float(known)

    @cached_property
    def groups(self) -> list[Group]:
        """The client groups that did something."""
        spec = fields_with(self.run.run.spec, self.change)
        groups = [self._group(fields) for fields in spec.get("clients", [])]
        return [group for group in groups if group.throughput_tps > 0]

    def _group(self, fields: Mapping[str, Any]) -> Group:
        name = fields["name"]
        response = self.run.histogram("response", self.slice_ids, group=name)
        pool_wait = self.run.histogram("pool_wait", self.slice_ids, group=name)
        service = self.run.histogram("service", self.slice_ids, group=name)
        return Group(
            name=name,
            clients=fields["count"],
            pool_max=(fields.get("pool") or {}).get("max"),
            response_ms=response.mean / 1e6,
            pool_wait_ms=pool_wait.mean / 1e6,
            service_ms=service.mean / 1e6,
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
        return sum(group.sessions_max for group in self.groups)

    # -- what the sessions did -------------------------------------------------------------------

    @cached_property
    def by_event(self) -> dict[tuple[str, str], float]:
        """Average client sessions in a transaction by (wait event type, wait event)."""
        averages: dict[tuple[str, str], float] = {}
        sampled = self.run.waits(self.slice_ids)
        if not sampled:
            raise Skip(self._why_missing("wait", NOT_SAMPLED["waits"]))
        for wait in sampled:
            if wait.backend_type == CLIENT_BACKEND and wait.state in IN_TRANSACTION:
                idle = wait.state != "active"
                key = ("Client", "ClientRead") if idle else (wait.wait_event_type, wait.wait_event)
                averages[key] = averages.get(key, 0.0) + wait.average
        return averages

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

    def top_event(self, name: WaitClass) -> tuple[str, float] | None:
        """Return the most frequent wait event of a class, ``type:event``, and its sessions."""
        of_class = {
            f"{kind}:{event}": average
            for (kind, event), average in self.by_event.items()
            if wait_class("active", kind, event) == name
        }
        return max(of_class.items(), key=lambda item: item[1]) if of_class else None

    # -- what the machine did --------------------------------------------------------------------

    @cached_property
    def cpu(self) -> HostCpu:
        """The host's CPU, by the kernel's own count."""
        parts = {
            name: self.run.delta("metric_host", f"cpu_{name}_ms", self.slice_ids)
            for name in ("user", "system", "iowait", "steal", "idle")
        }
        total = sum(value or 0.0 for value in parts.values())
        if total <= 0:
            raise Skip(self._why_missing("host", "the host's CPU was not recorded"))
        machine = float(self.run.run.host.get("cores_host") or self.cores)
        cpu = HostCpu(machine, **{n: (v or 0.0) / total * machine for n, v in parts.items()})
        return cpu if machine <= self.cores else self._within_quota(cpu)

    def _within_quota(self, machine: HostCpu) -> HostCpu:
        """Return the CPU usage of a container limited to fewer cores than the machine has.

        It is the usage of the load's own processes, split like the machine's.
        """
        used = min(self.own_cores or machine.busy, self.cores)
        system = used * machine.system_share
        return HostCpu(self.cores, used - system, system, 0.0, 0.0, self.cores - used)

    @cached_property
    def own_cores(self) -> float | None:
        """Cores that the server and the generator on its machine use; None if not recorded."""
        return None if self.server_cores is None else self.server_cores + self.generator_cores

    @cached_property
    def generator_cores(self) -> float:
        """Cores that the load generator kept busy."""
        series = self.run.series("metric_generator", self.slice_ids)
        used_us = series["cpu_user_us"].sum() + series["cpu_system_us"].sum()
        return float(used_us) / 1e6 / self.seconds

    def process_cores(self, role: str) -> float | None:
        """Cores that the server's processes of ``role`` kept busy; None if not recorded."""
        used = [
            self.run.delta("metric_process", column, self.slice_ids, where={"role": role})
            for column in ("cpu_user_ms", "cpu_system_ms")
        ]
        known = [value for value in used if value is not None]
        return max(0.0, sum(known)) / 1000 / self.seconds if known else None

    @cached_property
    def server_cores(self) -> float | None:
        """Cores that all of the server's processes kept busy; None if not recorded."""
        roles = set(self.run.series("metric_process", self.slice_ids)["role"])
        cores = [self.process_cores(str(role)) for role in sorted(roles - {"pgdyno"})]
        known = [value for value in cores if value is not None]
        return sum(known) if known else None

    @cached_property
    def wal(self) -> Wal:
        """WAL written, by the server's own count."""
        counters = {
            name: self.run.delta("metric_wal", name, self.slice_ids)
            for name in ("wal_bytes", "wal_records", "wal_fpi", "wal_buffers_full")
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
            syncs=self.run.delta("metric_wal", "wal_sync", self.slice_ids),
            sync_ms=self.run.delta("metric_wal", "wal_sync_time_ms", self.slice_ids),
            buffers_full=counters["wal_buffers_full"],
        )

    @cached_property
    def runnable(self) -> float:
        """Client sessions that run or are ready to, on average.

        Sampled sessions alone are not sufficient: a session that was woken shows its old wait event
        until it gets a core, so on busy cores sessions in the run queue seem to wait for their
        client, or to be idle. The kernel counts runnable processes; pgdyno's and the server's share
        of them is assumed to be their share of the CPU time (equal weights get equal time), less
        the generator and the process that reads the count. The rest is limited to the sessions in
        service that do not wait for something else.
        """
        sampled, cpu = self.sessions("cpu"), self.cpu_if_recorded
        counts = self.run.series("metric_host", self.slice_ids)["procs_running"]
        counts = counts[counts == counts]  # without NaN, which stands for NULL
        if cpu is None or self.own_cores is None or not counts.size or cpu.busy <= 0:
            return sampled
        ours = max(0.0, float(counts.mean()) - 1.0) * min(1.0, self.own_cores / cpu.busy)
        queued = max(ours - self._generator_runnable, self.process_cores(CLIENT_BACKEND) or 0.0)
        return min(queued, self.not_waiting)

    @cached_property
    def in_service(self) -> float:
        """Connections at work on average, by Little's law, or as seen if that is more."""
        service = self.run.histogram("service", self.slice_ids)
        return max(self.sessions_at_work, service.count * service.mean / 1e9 / self.seconds)

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
        for event in self.run.events("probe"):
            if event.detail.get("probe") == probe:
                return f"{otherwise}: {event.detail.get('reason') or event.label}"
        return otherwise
