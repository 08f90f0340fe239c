"""CPU usage of other programs on the server's machine.

    others = busy - server's processes - pgdyno's - the kernel's threads and interrupts

All are of the time between the same two readings of the processes. The kernel's own threads write
back what the server wrote and carry its packets, so they are not blamed on anybody. Time that a
hypervisor takes is no program's of this machine (see steal).

Others are at most what is busy with neither the server nor pgdyno, whatever the rows of programs
add up to. Where processes can be hidden from pgdyno (another container), all of that is theirs.
Where none can, others are the programs that were seen, and what is busy beyond all of them belongs
to nobody: it is told as that.

Where the server may use fewer cores than the machine has, only what kept it from having those
counts: what others use of cores that would be idle otherwise does not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.numbers import counted, percent
from pgdyno.record.facts import is_pooled
from pgdyno.record.fileformat import CORES_ALL, CORES_BUSY, LITTLE_EACH
from pgdyno.spec.load import MAX_OTHER_PROGRAMS

if TYPE_CHECKING:
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
    """Return what the cores did over these slices, as read with the programs; None if it was not
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
