"""CPU time of every program on the machine except the server's processes, by name and owner.

The owner follows from the tree of processes: descendants of the postmaster are the server's,
descendants of this process are pgdyno's, the kernel marks its threads, and the rest belongs to
others. Only the command's name is kept (15 characters, proc(5)), never its arguments, which may
have passwords.

The time of a process between two samples is counted for its parent's program, which collects it.
What the cores of the machine did while the same processes were read is in two rows more. Invisible
processes (another container, hidepid) are in no row; their time is that of the cores minus the
other rows.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field

from pgdyno.probe._process_table import ProcessReading, ProcessSample
from pgdyno.record.fileformat import CORES_ALL, CORES_BUSY, LITTLE_EACH, MetricRow

Whose = Literal["server", "ours", "kernel", "other", "machine"]
Key = tuple[Whose, str]
"""A program, and whose it is."""
_WORTH_A_ROW_MS = 100.0
"""Least CPU time of a program with rows."""
_PROGRAMS_MAX = 100
_INTERRUPTS: Key = ("kernel", "(interrupts)")


class Programs(Struct):
    """The sum of CPU time by program, over all samples."""

    _used_ms: dict[Key, float] = field(default_factory=dict)
    _written: set[Key] = field(default_factory=set)
    _in_rest_ms: dict[Key, float] = field(default_factory=dict)
    """The part of the rows of ``LITTLE_EACH`` of each program: all until it has rows of its own."""
    _before: Mapping[int, ProcessSample] | None = None
    _owed_ms: dict[int, float] = field(default_factory=dict)
    """Counted time of children that ended while the processes were read, by process ID of the
    parent, whose figure had been read before it collected them."""

    def sample(
        self, reading: ProcessReading, postmaster_pid: int | None, *, begins: bool = False
    ) -> list[MetricRow]:
        """Return rows for metric_program.

        ``begins`` is true of the first sample of a slice, from which its time is counted. In all
        others, a program that had no rows has two: what the row of ``LITTLE_EACH`` had of it, and
        its figure.
        """
        now = reading.processes
        whose = {pid: _whose(pid, now, postmaster_pid) for pid in now}
        if self._before is not None:
            self._add(self._before, now, whose, postmaster_pid)
        self._before = now
        self._used_ms[_INTERRUPTS] = reading.interrupts_ms
        counts = Counter((whose[pid], each.command) for pid, each in now.items())
        self._used_ms = dict.fromkeys(counts, 0.0) | self._used_ms
        due = self._due()
        new = {*due} - self._written
        self._written |= new
        rows = [
            *(_row(key, counts[key], self._in_rest_ms.get(key, 0.0)) for key in new if not begins),
            *(_row(key, counts[key], self._used_ms[key]) for key in due),
        ]
        return [*rows, *self._rest(counts), *_of_cores(reading)]

    def _add(
        self,
        before: Mapping[int, ProcessSample],
        now: Mapping[int, ProcessSample],
        whose: Mapping[int, Whose],
        postmaster_pid: int | None,
    ) -> None:
        ended, owed, self._owed_ms = _ended_ms_by_parent(before, now), self._owed_ms, {}
        for pid, each in now.items():
            earlier = before.get(pid)
            if earlier is not None and earlier.started != each.started:
                earlier = None
            own_ms = each.cpu_ms - (earlier.cpu_ms if earlier else 0.0)
            counted_ms = ended.get(pid, 0.0)
            collected_ms = each.collected_ms - (earlier.collected_ms if earlier else 0.0)
            more_ms = collected_ms - counted_ms - owed.get(pid, 0.0)
            if more_ms < 0.0 and counted_ms > 0.0:
                self._owed_ms[pid] = min(-more_ms, counted_ms)
            if pid == postmaster_pid:
                continue  # It is in metric_process, with its children.
            if each.parent == postmaster_pid:
                own_ms = 0.0
            key = whose[pid], each.command
            used_ms = max(0.0, own_ms) + max(0.0, more_ms)
            self._used_ms[key] = self._used_ms.get(key, 0.0) + used_ms

    def _due(self) -> list[Key]:
        """Return the programs to write: those that used CPU time, and those with earlier rows."""
        due = [key for key, used in self._used_ms.items() if used >= _WORTH_A_ROW_MS]
        return [key for key in due if key in self._written or len(self._written) < _PROGRAMS_MAX]

    def _rest(self, counts: Mapping[Key, int]) -> Iterable[MetricRow]:
        """Return a row for all programs together that have no rows, of each owner."""
        without = self._used_ms.keys() - self._written
        self._in_rest_ms |= {key: self._used_ms[key] for key in without}
        used_ms: defaultdict[Whose, float] = defaultdict(float)
        processes: Counter[Whose] = Counter()
        for key, ms in self._in_rest_ms.items():
            used_ms[key[0]] += ms
            processes[key[0]] += counts[key] if key in without else 0
        for owner, ms in used_ms.items():
            yield _row((owner, LITTLE_EACH), processes[owner], ms)


def _row(key: Key, count: int, cpu_ms: float) -> MetricRow:
    whose, program = key
    return {"whose": whose, "program": program, "count": count, "cpu_ms": cpu_ms}


def _of_cores(reading: ProcessReading) -> Iterable[MetricRow]:
    """Return the rows of all cores of the machine: their time at work, and all their time."""
    for program, ms in ((CORES_BUSY, reading.busy_ms), (CORES_ALL, reading.cores_ms)):
        yield _row(("machine", program), len(reading.processes), ms)


def _whose(pid: int, now: Mapping[int, ProcessSample], postmaster_pid: int | None) -> Whose:
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


def _ended_ms_by_parent(
    before: Mapping[int, ProcessSample], now: Mapping[int, ProcessSample]
) -> dict[int, float]:
    """Return the last figures of ended processes, by the ancestor that collected them."""
    lives = {pid for pid, each in before.items() if pid in now and now[pid].started == each.started}
    ended: dict[int, float] = {}
    for pid in before.keys() - lives:
        above = before[pid].parent
        while above in before and above not in lives:
            above = before[above].parent
        ended[above] = ended.get(above, 0.0) + before[pid].cpu_ms + before[pid].collected_ms
    return ended
