"""The host's CPU, memory and pressure from /proc: parsers of text, and one sampler over them.

Sources: proc(5), and Documentation/accounting/psi.rst of the Linux kernel. Figures are of the
whole host, also in a container.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pgdyno.record.fileformat import MetricRow

PROC = Path("/proc")
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
"""Length of the ticks in which /proc counts CPU time."""
PRESSURE = re.compile(r"^(some|full) .*\btotal=(\d+)", re.MULTILINE)


def cpu_ticks(text: str) -> list[int]:
    """Parse /proc/stat: ticks since boot, over all CPUs, of user, nice, system, idle, iowait, irq,
    softirq and steal; 0 where the kernel is too old to count one."""
    total = next(line for line in text.splitlines() if line.startswith("cpu "))
    return ([int(word) for word in total.split()[1:]] + [0] * 8)[:8]


def parse_stat(text: str) -> dict[str, float]:
    """Parse /proc/stat: milliseconds of CPU time since boot, over all CPUs, and the run queue.

    User time includes niced processes and guests; system time includes interrupts.
    """
    lines = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
    user, nice, system, idle, iowait, irq, softirq, steal = cpu_ticks(text)
    return {
        "cpu_user_ms": (user + nice) * TICK_MS,
        "cpu_system_ms": (system + irq + softirq) * TICK_MS,
        "cpu_iowait_ms": iowait * TICK_MS,
        "cpu_steal_ms": steal * TICK_MS,
        "cpu_idle_ms": idle * TICK_MS,
        "context_switches": int(lines["ctxt"]),
        "procs_running": int(lines["procs_running"]),
        "procs_blocked": int(lines["procs_blocked"]),
    }


def parse_meminfo(text: str) -> dict[str, int]:
    """Parse /proc/meminfo: bytes of memory, and of file pages not yet written to disk."""
    kib = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if rest.split():
            kib[name] = int(rest.split()[0])
    return {
        "memory_total_bytes": kib["MemTotal"] * 1024,
        "memory_available_bytes": kib["MemAvailable"] * 1024,
        "dirty_bytes": kib["Dirty"] * 1024,
        "writeback_bytes": kib["Writeback"] * 1024,
    }


def parse_pressure(text: str) -> dict[str, int]:
    """Parse a file of /proc/pressure: microseconds in which some or all tasks stalled."""
    return {kind: int(total) for kind, total in PRESSURE.findall(text)}


def pressure() -> dict[str, int | None]:
    """Return the pressure columns of metric_host; None where the kernel has no figures."""
    stalls: dict[str, Mapping[str, int]] = {}
    for resource in ("cpu", "io", "memory"):
        try:
            stalls[resource] = parse_pressure((PROC / "pressure" / resource).read_text())
        except OSError:
            stalls[resource] = {}
    return {
        "pressure_cpu_some_us": stalls["cpu"].get("some"),
        "pressure_io_some_us": stalls["io"].get("some"),
        "pressure_io_full_us": stalls["io"].get("full"),
        "pressure_memory_some_us": stalls["memory"].get("some"),
    }


def sample_host() -> MetricRow:
    """Return a row for metric_host. Raises OSError without the /proc of Linux."""
    return {
        **parse_stat((PROC / "stat").read_text()),
        "load1": float((PROC / "loadavg").read_text().split()[0]),
        **parse_meminfo((PROC / "meminfo").read_text()),
        **pressure(),
    }
