"""CPU time of the server's machine that the server does not get: used by other programs, or denied
by a quota or the hypervisor.

    others = busy - server's processes - pgdyno's - the kernel's threads and interrupts

All are of the time between the same two readings of the processes. The kernel's own threads write
back what the server wrote and carry its packets, so they are not blamed on anybody. Time that a
hypervisor takes is no program's of this machine (see steal).

Others are at most what is busy with neither the server nor pgdyno, whatever the rows of programs
add up to. Where processes can be hidden from pgdyno (another container), all of that is theirs.
Where none can, others are the programs that were seen, and what is busy beyond all of them belongs
to no program, and is named as that.

Where the server may use fewer cores than the machine has, only what kept it from having those
counts: what others use of cores that would be idle otherwise does not.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.numbers import counted, percent
from pgdyno.record.facts import is_pooled
from pgdyno.record.fileformat import CORES_ALL, CORES_BUSY, LITTLE_EACH
from pgdyno.spec.load import MAX_OTHER_PROGRAMS

if TYPE_CHECKING:
    from pgdyno.facts.slices import Facts
    from pgdyno.record import RunFile


FOUND_SHARE = 0.1
"""Share of the cores from which other programs are a finding."""
_SECONDS_MIN = 1.0
"""Minimum period: CPU time is counted in ticks and read once a second."""
NOBODYS_SHARE = 0.05
"""Share of the cores from which it is said that they are busy with nobody's work. Less is the
difference of the kernel's ways of counting."""
_NAMED_SHARE = 0.02
_NAMED_MAX = 3
_POOLERS = frozenset({"pgbouncer", "pgpool", "odyssey", "pgcat", "pgagroal", "pgdog"})
"""Command names of poolers, which are part of the load."""
THROTTLED_SHARE = 0.25
"""Part of the quota's periods that are cut short from which the quota is a limit: the bar of
CPUThrottlingHigh in the alerts of the Kubernetes project (kubernetes-mixin)."""
STOLEN_SHARE = 0.1
"""Part of the machine's CPU time from which stealing is a finding; that of other programs, whose
effect is the same."""


class Program(Struct, frozen=True):
    """A program of others: all processes of one name."""

    name: str
    processes: int
    cores: float


class OtherPrograms(Struct, frozen=True):
    """CPU that was neither the server's nor pgdyno's, in cores."""

    cores: float
    """Cores available to the server."""
    used: float
    """Cores of these used by other programs."""
    limit_share: float
    """Share of the cores above which the measurement is not trusted."""
    kernel: float
    """Cores used by kernel threads and interrupts, which are attributed to no program."""
    programs: tuple[Program, ...]
    """Visible programs, the busiest first, with what each uses of all the machine's cores."""
    machine: float
    """Cores of the machine."""
    machine_used: float
    """Cores of the machine used by other programs."""
    nobodys: float | None = None
    """Cores that were busy with nothing that was seen; None where processes can be hidden."""

    @property
    def share(self) -> float:
        """Part of the cores that others used."""
        return self.used / self.cores

    @property
    def causes_distrust(self) -> bool:
        """True if it is so much that the measurement cannot be trusted."""
        return self.share > self.limit_share

    @property
    def is_confined(self) -> bool:
        """True if the server may use a part of the machine only."""
        return self.cores < self.machine

    @property
    def unseen(self) -> float:
        """Cores used by what came and went, cannot be seen from here, or uses little each."""
        return max(0.0, self.machine_used - sum(program.cores for program in self.programs))

    @property
    def names(self) -> str:
        """The busiest of them: ``stress (4 processes, 1.9 cores)``."""
        named = [each for each in self.programs if each.cores >= _NAMED_SHARE * self.machine]
        texts = [
            f"{each.name} ({counted(each.processes, 'process', 'processes')},"
            f" {counted(each.cores, 'core', 'cores')})"
            for each in named[:_NAMED_MAX]
        ]
        unseen = counted(self.unseen, "core", "cores")
        if self.unseen >= _NAMED_SHARE * self.machine and len(texts) < _NAMED_MAX:
            hidden = (
                "that are not visible from here" if self.nobodys is None else "with little each"
            )
            texts.append(f"others {hidden} ({unseen})")
        return ", ".join(texts)

    @property
    def sentence(self) -> str:
        """Sentence for the finding and for the distrust."""
        where = f"; on the machine's {self.machine:g} cores run " if self.is_confined else ": "
        return (
            f"{percent(self.share)} of the server's {counted(self.cores, 'core', 'cores')}"
            f" {'is' if self.cores == 1 else 'are'} busy with other programs"
            f"{where + self.names if self.names else ''}"
        )


def other_programs_of(run: RunFile, slice_ids: Collection[int]) -> OtherPrograms | None:
    """Return the CPU usage of other programs over these slices.

    None if it was not recorded, or if the slices are too short.
    """
    if run.seconds(slice_ids) < _SECONDS_MIN:
        return None
    time = _time_of_cores(run, slice_ids)
    server = _cores(run, "metric_process", slice_ids, time.seconds) if time else None
    if time is None or server is None:
        return None
    by_owner = {
        whose: _program_cores(run, slice_ids, time.seconds, whose=whose)
        for whose in ("server", "ours", "kernel", "other")
    }
    programs = _programs(run, slice_ids, time.seconds)
    pooled = _POOLERS if is_pooled(run.run.server) else frozenset()
    of_poolers = sum(each.cores for each in programs if each.name in pooled)
    programs = tuple(each for each in programs if each.name not in pooled)
    ours = server + by_owner["server"] + by_owner["ours"] + of_poolers
    seen, kernel = by_owner["other"] - of_poolers, by_owner["kernel"]
    beyond = time.used - ours
    nobodys = None
    if run.run.host.get("sees_all_processes"):
        others, nobodys = seen, max(0.0, beyond - kernel - seen)
    else:
        others = max(beyond - kernel, seen)
    others = max(0.0, min(others, beyond))
    programs = _within(programs, others)
    allowed = min(time.machine, float(run.run.host.get("cores") or time.machine))
    used = min(others, allowed)
    if allowed < time.machine:
        used = max(0.0, min(used, allowed - time.idle - (ours - of_poolers)))
    limit = float(run.run.spec.get("load", {}).get("max_other_programs", MAX_OTHER_PROGRAMS))
    return OtherPrograms(
        cores=allowed,
        used=used,
        limit_share=limit,
        kernel=kernel,
        programs=programs,
        machine=time.machine,
        machine_used=others,
        nobodys=nobodys,
    )


def _within(programs: tuple[Program, ...], cores: float) -> tuple[Program, ...]:
    """Return the programs, scaled down to add up to at most ``cores``."""
    visible = sum(each.cores for each in programs)
    if visible <= cores:
        return programs
    return tuple(replace(each, cores=each.cores * cores / visible) for each in programs)


class _TimeOfCores(Struct, frozen=True):
    """The use of the machine's cores, in cores."""

    machine: float
    """Number of them."""
    used: float
    idle: float
    """Without work."""
    seconds: float
    """The time that this is of."""


def _time_of_cores(run: RunFile, slice_ids: Collection[int]) -> _TimeOfCores | None:
    """Return the use of the cores over these slices, as read with the programs; None if it was not
    recorded."""
    machine = float(run.run.host.get("cores_host") or run.run.host.get("cores") or 0.0)
    ms = {
        name: run.delta("metric_host", f"cpu_{name}_ms", slice_ids) or 0.0
        for name in ("user", "system", "iowait", "steal", "idle")
    }
    total_ms = sum(ms.values())
    busy_ms, all_ms = (
        run.delta("metric_program", "cpu_ms", slice_ids, where={"whose": "machine", "program": of})
        for of in (CORES_BUSY, CORES_ALL)
    )
    if total_ms <= 0 or machine <= 0 or busy_ms is None or not all_ms:
        return None
    idle = (ms["idle"] + ms["iowait"]) / total_ms * machine
    return _TimeOfCores(machine, busy_ms / all_ms * machine, idle, all_ms / 1000 / machine)


def _cores(run: RunFile, table: str, slice_ids: Collection[int], seconds: float) -> float | None:
    """Cores that the server's processes used; None if not recorded."""
    roles = {str(role) for role in run.series(table, slice_ids)["role"]} - {"pgdyno"}
    rises = [
        run.delta(table, column, slice_ids, where={"role": role})
        for role in sorted(roles)
        for column in ("cpu_user_ms", "cpu_system_ms")
    ]
    known = [rise for rise in rises if rise is not None]
    return sum(known) / 1000 / seconds if known else None


def _program_cores(run: RunFile, slice_ids: Collection[int], seconds: float, **where: str) -> float:
    return (run.delta("metric_program", "cpu_ms", slice_ids, where=where) or 0.0) / 1000 / seconds


def _programs(run: RunFile, slice_ids: Collection[int], seconds: float) -> tuple[Program, ...]:
    rows = run.series("metric_program", slice_ids, where={"whose": "other"})
    most: dict[str, int] = {}
    for name, count in zip(rows["program"], rows["count"], strict=True):
        most[str(name)] = max(most.get(str(name), 0), int(count))
    found = [
        Program(
            name,
            count,
            _program_cores(run, slice_ids, seconds, whose="other", program=name),
        )
        for name, count in most.items()
        if name != LITTLE_EACH
    ]
    return tuple(sorted(found, key=lambda each: -each.cores))


class Quota(Struct, frozen=True):
    """The control group that was throttled most, over some slices."""

    control_group: str
    periods: float
    throttled: float
    """Periods in which the quota was used up before the end."""
    lost_s: float
    """CPU time for which processes were ready and not allowed to run, over all CPUs."""

    @property
    def share(self) -> float:
        """Part of the periods that were cut short."""
        return self.throttled / self.periods if self.periods else 0.0


def quota_of(s: Facts) -> Quota | None:
    """Return the quota that held the server back most; None if none was recorded."""
    rows = s.run.series("metric_control_group", s.slice_ids)
    quotas = [_quota(s, str(name)) for name in sorted(set(rows["control_group"]))]
    return max(quotas, key=lambda each: each.share, default=None)


def _quota(s: Facts, group: str) -> Quota:
    periods, throttled, lost_us = (
        s.run.delta("metric_control_group", name, s.slice_ids, where={"control_group": group})
        or 0.0
        for name in ("nr_periods", "nr_throttled", "throttled_us")
    )
    return Quota(group, periods, throttled, lost_us / 1e6)


def is_throttled(s: Facts) -> bool:
    """True if a quota, and not the machine, is the server's limit of CPU time."""
    quota = quota_of(s)
    return quota is not None and quota.share >= THROTTLED_SHARE


def stolen_share(s: Facts) -> float:
    """Part of the machine's CPU time that the hypervisor gave to others; 0 if not recorded."""
    ms = {
        name: s.run.delta("metric_host", f"cpu_{name}_ms", s.slice_ids) or 0.0
        for name in ("user", "system", "iowait", "steal", "idle")
    }
    return ms["steal"] / sum(ms.values()) if sum(ms.values()) > 0 else 0.0


def is_stolen(s: Facts) -> bool:
    """True if the hypervisor takes so much that the machine is slower than it seems."""
    return stolen_share(s) >= STOLEN_SHARE


@lru_cache(maxsize=1)
def is_crowded_out(s: Facts) -> bool:
    """True if other programs use more of the cores than the load's own processes.

    Processes that are ready compete as equals, so that the queue for a core is then mostly theirs.
    """
    others = other_programs_of(s.run, s.slice_ids)
    if others is None or others.share < FOUND_SHARE:
        return False
    return others.used > (s.own_cores or 0.0)
