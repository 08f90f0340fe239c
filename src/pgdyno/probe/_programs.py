"""CPU time of every program on the machine but the server's own processes, by name and by whose.

Whose it is comes from the tree of processes: what descends from the postmaster is the server's,
what descends from this process is pgdyno's own, the kernel marks its threads, and the rest belongs
to others. Only the command's name is kept (15 characters, proc(5)), never its arguments, which may
hold passwords.

A process that came and went between two samples is known to whoever collected it: its parent's
program gets the time. What cannot be seen (another container, hidepid) is in no row; the host's own
count, less these rows, tells how much that is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pgdyno.probe._host import PROC, TICK_MS

Whose = Literal["server", "ours", "kernel", "other"]
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's include/linux/sched.h, in the flags of /proc/PID/stat."""
_WORTH_A_ROW_MS = 100.0
"""CPU time from which on a program is written down."""
_PROGRAMS_MAX = 100
_INTERRUPTS: tuple[Whose, str] = ("kernel", "(interrupts)")


@dataclass(frozen=True)
class Seen:
    """One process as it was at one time."""

    parent: int
    started: int
    """Ticks since boot."""
    program: str
    kernel: bool
    own_ms: float
    collected_ms: float
    """Of children that ended and were collected."""


@dataclass
class Programs:
    """Adds up CPU time by program, sample after sample."""

    _used_ms: dict[tuple[Whose, str], float] = field(default_factory=dict)
    _written: set[tuple[Whose, str]] = field(default_factory=set)
    _before: Mapping[int, Seen] | None = None
    _interrupts_before_ms: float = 0.0

    def sample(self, postmaster_pid: int | None) -> list[dict[str, Any]]:
        """Rows for metric_program; a program's first two are its start from zero and its figure."""
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
        ended = _ended_ms_by_parent(before, now)
        for pid, each in now.items():
            earlier = before.get(pid)
            if earlier is None or earlier.started != each.started:
                earlier = Seen(0, each.started, "", kernel=False, own_ms=0.0, collected_ms=0.0)
            own_ms = each.own_ms - earlier.own_ms
            more_ms = each.collected_ms - earlier.collected_ms - ended.get(pid, 0.0)
            if pid == postmaster_pid:
                continue  # metric_process has it, and its children's.
            if each.parent == postmaster_pid:
                own_ms = 0.0
            key = whose[pid], each.program
            used_ms = max(0.0, own_ms) + max(0.0, more_ms)
            self._used_ms[key] = self._used_ms.get(key, 0.0) + used_ms

    def _due(self) -> list[tuple[Whose, str]]:
        """The programs that have rows: what used something, and what had rows before."""
        due = [key for key, used in self._used_ms.items() if used >= _WORTH_A_ROW_MS]
        return [key for key in due if key in self._written or len(self._written) < _PROGRAMS_MAX]

    def _rows(self, key: tuple[Whose, str], count: int) -> Iterable[dict[str, Any]]:
        whose, program = key
        row = {"whose": whose, "program": program, "count": count}
        if key not in self._written:
            self._written.add(key)
            yield row | {"cpu_ms": 0.0}
        yield row | {"cpu_ms": self._used_ms[key]}


def interrupts_ms(stat: str) -> float:
    """/proc/stat: CPU time in hard and soft interrupts since boot."""
    words = stat.partition("\n")[0].split()
    return sum(int(word) for word in words[6:8]) * TICK_MS


def processes() -> dict[int, Seen]:
    """Every process that can be seen, by process ID."""
    found = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (seen := _look_at(entry)) is not None:
            found[int(entry.name)] = seen
    return found


def _look_at(entry: Path) -> Seen | None:
    try:
        return parse((entry / "stat").read_bytes())
    except (OSError, ValueError, IndexError):
        return None  # It is gone, or hidden.


def parse(stat: bytes) -> Seen:
    """/proc/PID/stat. A name may hold any bytes; those that cannot be shown become ``?``."""
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
    """What is known of processes that ended, by the ancestor that has collected them by now."""
    lives = {pid for pid, each in before.items() if pid in now and now[pid].started == each.started}
    ended: dict[int, float] = {}
    for pid in before.keys() - lives:
        above = before[pid].parent
        while above in before and above not in lives:
            above = before[above].parent
        ended[above] = ended.get(above, 0.0) + before[pid].own_ms + before[pid].collected_ms
    return ended
