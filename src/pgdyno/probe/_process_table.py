"""All processes of the machine, and how long its cores worked, at one time, from /proc.

The processes are read one after the other, and while thousands are read the load goes on: for a
fifth of a second on crowded cores. So that all CPU times can be compared, all are of the middle of
that: the server's processes are read once, all others before and after, and the cores before and
after that.

The CPU time of the server's processes is that of the kernel's scheduler, in nanoseconds
(schedstat), which counts one thread: they have no other. User and system time (stat) are cut off to
whole ticks of 10 ms: of a thousand sessions that work a little each, most would be lost. They only
say how the time is divided. What a parent has collected of its children loses nothing, since the
kernel adds before it cuts off.

Cores work when they are not idle: where the kernel stops its tick on idle cores, their idle time is
exact, and user and system time are what the tick happens to meet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from functools import cache
from math import isnan, nan
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.probe._host import PROC, TICK_MS, cpu_ticks

_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's include/linux/sched.h, in the flags of /proc/PID/stat."""
_READ_BYTES = 4096
"""More bytes than any file that is read of a process."""


class ProcessSample(Struct, frozen=True):
    """A process at one time, identified by its process ID, ``parent`` and ``started``."""

    parent: int
    started: int
    """Ticks since boot."""
    command: str
    """At most 15 characters (proc(5)); unprintable ones are ``?``."""
    kernel: bool
    """True of a thread of the kernel."""
    user_ms: float
    """In whole ticks, as is ``system_ms``: together at most ``cpu_ms``."""
    system_ms: float
    children_user_ms: float
    """Of children that have ended and were collected, as is ``children_system_ms``."""
    children_system_ms: float
    ran_ms: float = nan
    """CPU time by the scheduler; NaN of processes that are not the server's, or not known."""
    queued_ms: float = nan
    """Time in the queue for a core; NaN likewise."""

    @property
    def cpu_ms(self) -> float:
        """CPU time of the process itself."""
        in_ticks_ms = self.user_ms + self.system_ms
        return in_ticks_ms if isnan(self.ran_ms) else max(self.ran_ms, in_ticks_ms)

    @property
    def collected_ms(self) -> float:
        """CPU time of collected children."""
        return self.children_user_ms + self.children_system_ms

    def halfway_to(self, later: ProcessSample) -> ProcessSample:
        """Return this process in the middle of two readings."""
        return replace(
            later,
            user_ms=(self.user_ms + later.user_ms) / 2,
            system_ms=(self.system_ms + later.system_ms) / 2,
            children_user_ms=(self.children_user_ms + later.children_user_ms) / 2,
            children_system_ms=(self.children_system_ms + later.children_system_ms) / 2,
        )


class ProcessReading(Struct, frozen=True):
    """All visible processes by process ID, and the time of cores in the middle of reading them."""

    processes: Mapping[int, ProcessSample]
    busy_ms: float
    """Time for which cores worked since the first reading, over all cores."""
    cores_ms: float
    """Time since then, times cores."""
    interrupts_ms: float
    """CPU time in hard and soft interrupts since then."""


class ProcessTable:
    """Reads the processes of the machine again and again."""

    def __init__(self) -> None:
        self._cores = _Cores()

    def read(self, server_pid: int | None) -> ProcessReading:
        """Read all processes; the postmaster ``server_pid`` and its children have the scheduler's
        figures.

        Raises OSError or ValueError without the /proc of Linux.
        """
        numbers = [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208
        parents = _read_all(numbers)
        server = {
            pid
            for pid, process in parents.items()
            if server_pid is not None and server_pid in (pid, process.parent)
        }
        others = parents.keys() - server
        busy_before_ms, all_before_ms = self._cores.read()
        before = _read_all(others)
        found = dict(_scheduled(pid, parents[pid], again=pid == server_pid) for pid in server)
        after = _read_all(others)
        busy_after_ms, all_after_ms = self._cores.read()
        found |= {
            pid: before[pid].halfway_to(process)
            for pid, process in after.items()
            if pid in before and before[pid].started == process.started
        }
        return ProcessReading(
            found,
            (busy_before_ms + busy_after_ms) / 2,
            (all_before_ms + all_after_ms) / 2,
            self._cores.interrupts_ms,
        )


class _Cores:
    """The time for which cores worked, added up between readings: cores may come and go."""

    def __init__(self) -> None:
        self._busy_ms = self._all_ms = 0.0
        self._before: tuple[float, float, float] | None = None
        self.interrupts_ms = 0.0
        """Time in interrupts since the first reading."""

    def read(self) -> tuple[float, float]:
        """Return the time of cores at work, and of all, since the first reading."""
        text = (PROC / "stat").read_text()
        now_ms = time.monotonic_ns() / 1e6
        cores, without_work_ms, interrupts_ms = parse_cores(text)
        if self._before is not None:
            before_ms, without_work_before_ms, interrupts_before_ms = self._before
            passed_ms = (now_ms - before_ms) * cores
            idle_ms = min(max(0.0, without_work_ms - without_work_before_ms), passed_ms)
            self._busy_ms += passed_ms - idle_ms
            self._all_ms += passed_ms
            self.interrupts_ms += interrupts_ms - interrupts_before_ms
        self._before = now_ms, without_work_ms, interrupts_ms
        return self._busy_ms, self._all_ms


def parse_cores(stat: str) -> tuple[int, float, float]:
    """Parse /proc/stat: the number of cores, their time since boot without work (idle, waiting for
    I/O, or taken by the hypervisor), and their time in interrupts."""
    _, _, _, idle, iowait, irq, softirq, steal = cpu_ticks(stat)
    cores = sum(line.startswith("cpu") for line in stat.splitlines()) - 1 or 1
    return cores, (idle + iowait + steal) * TICK_MS, (irq + softirq) * TICK_MS


def read_process(pid: int) -> ProcessSample | None:
    """Read one process; None if it has ended, or is hidden."""
    try:
        return parse_process(read_small(f"{PROC}/{pid}/stat"))
    except (OSError, ValueError, IndexError):
        return None


def parse_process(stat: bytes) -> ProcessSample:
    """Parse /proc/PID/stat. The command may have spaces and brackets."""
    head, _, tail = stat.rpartition(b")")
    words = tail.split()
    user, system, children_user, children_system = (int(word) * TICK_MS for word in words[11:15])
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return ProcessSample(
        parent=int(words[1]),
        started=int(words[19]),
        command=name if name.isprintable() else _printable(name),
        kernel=bool(int(words[6]) & _KERNEL_THREAD),
        user_ms=user,
        system_ms=system,
        children_user_ms=children_user,
        children_system_ms=children_system,
    )


def scheduled_ms(directory: Path) -> tuple[float, float]:
    """Return the CPU time of a thread, or of a process's first one, and the time for which it was
    ready to run and had no core; NaN if the kernel does not count them."""
    try:
        ran_ns, delay_ns, *_ = map(int, read_small(f"{directory}/schedstat").split())
    except (OSError, ValueError):
        return nan, nan
    return (ran_ns / 1e6, delay_ns / 1e6) if schedule_is_counted() else (nan, nan)


@cache
def schedule_is_counted() -> bool:
    """Return whether the kernel counts these: if not, it says 0 of all, this process too."""
    try:
        return (PROC / "self" / "schedstat").read_text().split() != ["0", "0", "0"]
    except OSError:
        return False


def _read_all(pids: Iterable[int]) -> dict[int, ProcessSample]:
    """Read these processes, without those that have ended or are hidden."""
    found = ((pid, read_process(pid)) for pid in pids)
    return {pid: process for pid, process in found if process is not None}


def _scheduled(pid: int, process: ProcessSample, *, again: bool) -> tuple[int, ProcessSample]:
    """Return a process with the scheduler's figures, and read anew if that matters."""
    ran_ms, queued_ms = scheduled_ms(PROC / str(pid))
    newest = read_process(pid) if again else None
    return pid, replace(newest or process, ran_ms=ran_ms, queued_ms=queued_ms)


def read_small(path: str) -> bytes:
    """Read a small file of /proc, with little around it: there are thousands of them."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _READ_BYTES)
    finally:
        os.close(file)


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)
