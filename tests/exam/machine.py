"""The machine during a case: CPU time of programs that have nothing to do with it."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_KERNEL_THREADS = 2


@dataclass
class Neighbours:
    """Cores that other programs used during a block."""

    cores: float = 0.0


@contextmanager
def neighbours(injected: Set[int] = frozenset()) -> Iterator[Neighbours]:
    """Measure the cores that are used in a block by programs other than those of the case.

    Those are the kernel's, descendants of this process, and the processes ``injected``, to which
    the block may add.
    """
    ours = {_KERNEL_THREADS, os.getpid()}
    result, before, began_s = Neighbours(), _cpu_s_without(ours | injected), time.monotonic()
    try:
        yield result
    finally:
        seconds, after = time.monotonic() - began_s, _cpu_s_without(ours | injected)
        result.cores = max(0.0, (after - before) / seconds)


def _cpu_s_without(ours: Set[int]) -> float:
    """CPU seconds of the machine without those of some processes and their descendants."""
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system) / _TICKS - cpu_s_of(ours)


def cpu_s_of(roots: Set[int]) -> float:
    """CPU seconds of processes and their descendants, those that ended under a parent included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            pid = int(entry.name)
            parents[pid] = int(words[1])
            # The last two are of children that have ended, as sessions do before the block ends.
            ticks[pid] = sum(map(int, words[11:15]))
    return sum(ticks[pid] for pid in ticks if roots & set(_line(pid, parents))) / _TICKS


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """Yield a process and its ancestors."""
    while pid:
        yield pid
        pid = parents.get(pid, 0)


def facts(*, busy: bool) -> dict[str, object]:
    """Return what the results depend on, without anything that identifies the machine's owner."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_average": round(os.getloadavg()[2], 1),
        "other_programs_allowed": busy,
    }
