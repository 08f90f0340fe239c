"""CPU time of every program on the machine except the server's processes, by name and owner.

The owner follows from the tree of processes: descendants of the postmaster are the server's,
descendants of this process are pgdyno's, the kernel marks its threads, and the rest belongs to
others. Only the command's name is kept (15 characters, proc(5)), never its arguments, which may
have passwords.

The time of a process between two samples is counted for its parent's program, which collects it.
Invisible processes (another container, hidepid) are in no row; their time is the host's count minus
these rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pgdyno.probe._host import PROC, TICK_MS
from pgdyno.probe._rows import MetricRow

Whose = Literal["server", "ours", "kernel", "other"]
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's include/linux/sched.h, in the flags of /proc/PID/stat."""
_WORTH_A_ROW_MS = 100.0
"""Least CPU time of a program with rows."""
_PROGRAMS_MAX = 100
_INTERRUPTS: tuple[Whose, str] = ("kernel", "(interrupts)")


@dataclass(frozen=True)
class Seen:
    """A process at one time."""

    parent: int
    started: int
    """Ticks since boot."""
    program: str
    kernel: bool
    own_ms: float
    collected_ms: float
    """CPU time of collected children."""


@dataclass
class Programs:
    """The sum of CPU time by program, over all samples."""

    _used_ms: dict[tuple[Whose, str], float] = field(default_factory=dict)
    _written: set[tuple[Whose, str]] = field(default_factory=set)
    _before: Mapping[int, Seen] | None = None
    _owed_ms: dict[int, float] = field(default_factory=dict)
    """Counted time of children that ended while the processes were read, by process ID of the
    parent, whose figure had been read before it collected them."""
    _interrupts_before_ms: float = 0.0

    def sample(self, postmaster_pid: int | None) -> list[MetricRow]:
        """Return rows for metric_program; the first two of a program are zero and its figure."""
        now = processes()
        whose = {pid: _whose(pid, now, postmaster_pid) for pid in now}
        if self._before is not None:
            self._add(self._before, now, whose, postmaster_pid)
        self._before = now
        since_boot_ms = interrupts_ms((PROC / "stat").read_text())
        self._interrupts_before_ms = self._interrupts_before_ms or since_boot_ms
        self._used_ms[_INTERRUPTS] = since_boot_ms - self._interrupts_before_ms
        counts = Counter((whose[pid], each.program) for pid, each in now.items())
        return [row for key in self._due() for row in self._rows(key, counts[key])]

    def _add(
        self,
        before: Mapping[int, Seen],
        now: Mapping[int, Seen],
        whose: Mapping[int, Whose],
        postmaster_pid: int | None,
    ) -> None:
        ended, owed, self._owed_ms = _ended_ms_by_parent(before, now), self._owed_ms, {}
        for pid, each in now.items():
            earlier = before.get(pid)
            if earlier is None or earlier.started != each.started:
                earlier = Seen(0, each.started, "", kernel=False, own_ms=0.0, collected_ms=0.0)
            own_ms = each.own_ms - earlier.own_ms
            counted_ms = ended.get(pid, 0.0)
            more_ms = each.collected_ms - earlier.collected_ms - counted_ms - owed.get(pid, 0.0)
            if more_ms < 0.0 and counted_ms > 0.0:
                self._owed_ms[pid] = min(-more_ms, counted_ms)
            if pid == postmaster_pid:
                continue  # It is in metric_process, with its children.
            if each.parent == postmaster_pid:
                own_ms = 0.0
            key = whose[pid], each.program
            used_ms = max(0.0, own_ms) + max(0.0, more_ms)
            self._used_ms[key] = self._used_ms.get(key, 0.0) + used_ms

    def _due(self) -> list[tuple[Whose, str]]:
        """Return the programs to write: those that used CPU time, and those with earlier rows."""
        due = [key for key, used in self._used_ms.items() if used >= _WORTH_A_ROW_MS]
        return [key for key in due if key in self._written or len(self._written) < _PROGRAMS_MAX]

    def _rows(self, key: tuple[Whose, str], count: int) -> Iterable[MetricRow]:
        whose, program = key
        row: MetricRow = {"whose": whose, "program": program, "count": count}
        if key not in self._written:
            self._written.add(key)
            yield row | {"cpu_ms": 0.0}
        yield row | {"cpu_ms": self._used_ms[key]}


def interrupts_ms(stat: str) -> float:
    """Parse /proc/stat: CPU time in hard and soft interrupts since boot."""
    words = stat.partition("\n")[0].split()
    return sum(int(word) for word in words[6:8]) * TICK_MS


def processes() -> dict[int, Seen]:
    """Return every visible process, by process ID."""
    found = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (seen := _look_at(entry)) is not None:
            found[int(entry.name)] = seen
    return found


def _look_at(entry: Path) -> Seen | None:
    try:
        return parse((entry / "stat").read_bytes())
    except (OSError, ValueError, IndexError):
        return None  # It has ended, or is hidden.


def parse(stat: bytes) -> Seen:
    """Parse /proc/PID/stat. Unprintable characters of a name become ``?``."""
    head, _, tail = stat.rpartition(b")")
    words = tail.split()
    user, system, children_user, children_system = (int(word) * TICK_MS for word in words[11:15])
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return Seen(
        parent=int(words[1]),
        started=int(words[19]),
        program="".join(letter if letter.isprintable() else "?" for letter in name),
        kernel=bool(int(words[6]) & _KERNEL_THREAD),
        own_ms=user + system,
        collected_ms=children_user + children_system,
    )


def _whose(pid: int, now: Mapping[int, Seen], postmaster_pid: int | None) -> Whose:
    if now[pid].kernel:
        return "kernel"
    own_pid, above = os.getpid(), pid
    for _ in range(len(now)):
        if above == postmaster_pid:
            return "server"
        if above == own_pid:
            return "ours"
        if above not in now:
            break
        above = now[above].parent
    return "other"


def _ended_ms_by_parent(before: Mapping[int, Seen], now: Mapping[int, Seen]) -> dict[int, float]:
    """Return the last figures of ended processes, by the ancestor that collected them."""
    lives = {pid for pid, each in before.items() if pid in now and now[pid].started == each.started}
    ended: dict[int, float] = {}
    for pid in before.keys() - lives:
        above = before[pid].parent
        while above in before and above not in lives:
            above = before[above].parent
        ended[above] = ended.get(above, 0.0) + before[pid].own_ms + before[pid].collected_ms
    return ended
