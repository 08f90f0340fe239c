"""CPU usage of other programs on the server's machine.

    others = busy (user and system) - server's processes - pgdyno's - the kernel's threads and
             interrupts

They are at most what is busy with neither the server nor pgdyno, whatever the rows of programs add
up to. The kernel's own threads write back what the server wrote and carry its packets, so they are
not blamed on anybody. Time that a hypervisor takes is no program's of this machine (see steal).
What the rows of programs do not add up to belongs to programs that came and went between two
samples, or that cannot be seen from here (another container).

Where the server may use fewer cores than the machine has, only what kept it from having those
counts: what others use of cores that would be idle otherwise does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pgdyno.diagnose.words import counted, percent
from pgdyno.record.facts import is_pooled

if TYPE_CHECKING:
    from pgdyno.record import RunFile

FOUND_SHARE = 0.1
"""Share of the cores from which other programs are a finding."""
DISTRUST_SHARE = 1 / 3
"""Default share of the cores above which the measurement is not trusted."""
_SECONDS_MIN = 1.0
"""Minimum period: CPU time is counted in ticks and read once a second."""
_NAMED_SHARE = 0.02
_NAMED_MAX = 3
_POOLERS = frozenset({"pgbouncer", "pgpool", "odyssey", "pgcat", "pgagroal", "pgdog"})
"""Command names of poolers, which are part of the load."""


@dataclass(frozen=True)
class Program:
    """A program of others: all processes of one name."""

    name: str
    processes: int
    cores: float


@dataclass(frozen=True)
class OtherPrograms:
    """CPU that was neither the server's nor pgdyno's, in cores."""

    cores: float
    """Cores available to the server."""
    used: float
    """Cores used by other programs."""
    limit_share: float
    """Share of the cores above which the measurement is not trusted."""
    kernel: float
    """Cores used by kernel threads and interrupts, which are attributed to no program."""
    programs: tuple[Program, ...]
    """Visible programs, the busiest first."""

    @property
    def share(self) -> float:
        """Part of the cores that others used."""
        return self.used / self.cores

    @property
    def causes_distrust(self) -> bool:
        """True if it is so much that the measurement cannot be trusted."""
        return self.share > self.limit_share

    @property
    def unseen(self) -> float:
        """Cores used by what came and went, or cannot be seen from here."""
        return max(0.0, self.used - sum(program.cores for program in self.programs))

    @property
    def names(self) -> str:
        """The busiest of them: ``stress (4 processes, 1.9 cores)``."""
        named = [each for each in self.programs if each.cores >= _NAMED_SHARE * self.cores]
        texts = [
            f"{each.name} ({counted(each.processes, 'process', 'processes')},"
            f" {counted(each.cores, 'core', 'cores')})"
            for each in named[:_NAMED_MAX]
        ]
        unseen = counted(self.unseen, "core", "cores")
        if self.unseen >= _NAMED_SHARE * self.cores and len(texts) < _NAMED_MAX:
            texts.append(f"others that are not visible from here ({unseen})")
        return ", ".join(texts)

    @property
    def sentence(self) -> str:
        """Sentence for the finding and for the distrust."""
        return (
            f"{percent(self.share)} of the server's {counted(self.cores, 'core', 'cores')}"
            f" {'is' if self.cores == 1 else 'are'} busy with other programs"
            f"{': ' + self.names if self.names else ''}"
        )


def other_programs(run: RunFile, slice_ids: Collection[int]) -> OtherPrograms | None:
    """Return the CPU usage of other programs over these slices.

    None if it was not recorded, or if the slices are too short.
    """
    seconds = run.seconds(slice_ids)
    if seconds < _SECONDS_MIN:
        return None
    busy = _host_cores(run, slice_ids, seconds)
    server = _cores(run, "metric_process", slice_ids, seconds)
    if busy is None or server is None or not _programs_recorded(run, slice_ids):
        return None
    used, idle, machine = busy
    ours = server + sum(
        _program_cores(run, slice_ids, seconds, whose=whose) for whose in ("server", "ours")
    )
    kernel = _program_cores(run, slice_ids, seconds, whose="kernel")
    programs = _programs(run, slice_ids, seconds)
    allowed = min(machine, float(run.run.host.get("cores") or machine))
    pooled = _POOLERS if is_pooled(run.run.server) else frozenset()
    of_poolers = sum(each.cores for each in programs if each.name in pooled)
    programs = tuple(each for each in programs if each.name not in pooled)
    others = max(used - ours - kernel - of_poolers, sum(each.cores for each in programs))
    others = min(others, used - ours - of_poolers)
    if allowed < machine:
        others = min(others, allowed - idle - ours)
    others = min(max(0.0, others), allowed)
    limit = float(run.run.spec.get("load", {}).get("max_other_programs", DISTRUST_SHARE))
    return OtherPrograms(allowed, others, limit, kernel, _within(programs, others))


def _within(programs: tuple[Program, ...], cores: float) -> tuple[Program, ...]:
    """Return the programs, scaled down to add up to at most ``cores``."""
    visible = sum(each.cores for each in programs)
    if visible <= cores:
        return programs
    return tuple(replace(each, cores=each.cores * cores / visible) for each in programs)


def _host_cores(
    run: RunFile, slice_ids: Collection[int], seconds: float
) -> tuple[float, float, float] | None:
    """Cores in use and without work, and how many the machine has, by the kernel's own count."""
    ms = {
        name: run.delta("metric_host", f"cpu_{name}_ms", slice_ids) or 0.0
        for name in ("user", "system", "iowait", "steal", "idle")
    }
    total = sum(ms.values())
    if total <= 0 or seconds <= 0:
        return None
    machine = float(run.run.host.get("cores_host") or run.run.host.get("cores") or 0.0)
    if machine <= 0:
        return None
    each = machine / total
    return (ms["user"] + ms["system"]) * each, (ms["idle"] + ms["iowait"]) * each, machine


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


def _programs_recorded(run: RunFile, slice_ids: Collection[int]) -> bool:
    return run.delta("metric_program", "cpu_ms", slice_ids) is not None


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
    ]
    return tuple(sorted(found, key=lambda each: -each.cores))
