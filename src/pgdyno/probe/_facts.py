"""Facts of the host: cores and memory within its limits, kernel, file systems of data and WAL.

The limits of a container apply, not the machine's size: control groups of version 2 (cpu.max,
memory.max) and version 1 (cpu.cfs_quota_us, memory.limit_in_bytes), of the given process and all
groups above it. Source: Documentation/admin-guide/cgroup-v2.rst of the Linux kernel.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from pgdyno.json_types import Json
from pgdyno.probe._control_groups import group_texts
from pgdyno.probe._disks import SYS_BLOCK, device_of, mount_of, wal_directory
from pgdyno.probe._host import PROC, parse_meminfo
from pgdyno.probe._link import Connectable, connect, queries_for
from pgdyno.probe._process_table import read_process
from pgdyno.probe._processes import find_postmaster
from pgdyno.record.facts import HostFacts

_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h."""


def host_facts(data_dir: Path | None, *, pid: int | None = None) -> HostFacts:
    """Return facts of this host for the run file.

    ``cores`` and ``memory_bytes`` are what the process ``pid`` (pgdyno itself if None) may use;
    ``cores`` may be a fraction. ``filesystem`` has 'data' and 'wal' if ``data_dir`` is
    accessible, each with mount, type, source, options, device and facts of the device.
    """
    memory_bytes = parse_meminfo((PROC / "meminfo").read_text())["memory_total_bytes"]
    return {
        "cores": cores_of(pid),
        "cores_host": os.cpu_count() or 1,
        "memory_bytes": min(memory_bytes, memory_limit_bytes(pid) or memory_bytes),
        "memory_host_bytes": memory_bytes,
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu_model": _cpu_fact("model name"),
        "virtualised": "hypervisor" in (_cpu_fact("flags") or "").split(),
        "container": _in_container(),
        "sees_all_processes": _sees_all_processes(),
        "filesystem": filesystems(data_dir),
    }


def filesystems(data_dir: Path | None) -> dict[str, Json]:
    """Return facts of the file systems of the data directory and its WAL, as 'data' and 'wal'."""
    if data_dir is None:
        return {}
    found = {}
    for what, path in (("data", data_dir), ("wal", wal_directory(data_dir))):
        mount = mount_of(path)
        if mount is None or not _can_see(path):
            continue
        device = device_of(path)
        found[what] = {
            "mount": mount.point,
            "type": mount.kind,
            "source": mount.source,
            "options": mount.options,
            "device": device,
            **_queue_facts(device),
        }
    return found


def cores_of(pid: int | None = None) -> float:
    """Return the cores that the process may use, by its affinity and its control groups' quota."""
    allowed = len(os.sched_getaffinity(pid or 0))
    quota = min(_cpu_quotas(pid), default=None)
    cores = allowed if quota is None else min(float(allowed), quota)
    return int(cores) if cores == int(cores) else round(cores, 2)


def memory_limit_bytes(pid: int | None = None) -> int | None:
    """Return the lowest memory limit of the process's control groups; None if there is none."""
    limits = [
        int(text)
        for version, name in ((2, "memory.max"), (1, "memory.limit_in_bytes"))
        for text in group_texts(pid, version, "memory", name)
        if text.isdigit()
    ]
    # Version 1 says "no limit" with a number near 2^63.
    return min((limit for limit in limits if 0 < limit < 2**60), default=None)


def _cpu_quotas(pid: int | None) -> Iterator[float]:
    for text in group_texts(pid, 2, "", "cpu.max"):
        quota, _, period = text.partition(" ")
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)
    quotas = group_texts(pid, 1, "cpu", "cpu.cfs_quota_us")
    periods = group_texts(pid, 1, "cpu", "cpu.cfs_period_us")
    for quota, period in zip(quotas, periods, strict=False):
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)


def _cpu_fact(name: str) -> str | None:
    with contextlib.suppress(OSError):
        for line in (PROC / "cpuinfo").read_text().splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return None


def _in_container() -> bool:
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()


def _sees_all_processes() -> bool:
    """True in the first namespace of process IDs, where /proc shows those of other users too."""
    try:
        first = (PROC / "self" / "ns" / "pid").stat().st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False
    return first and read_process(1) is not None


def _can_see(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def _queue_facts(device: str) -> dict[str, str | bool]:
    """Return the kernel's facts of the device: 'rotational' (bool), 'scheduler', 'write_cache'."""
    found: dict[str, str] = {}
    for key in ("rotational", "scheduler", "write_cache"):
        with contextlib.suppress(OSError):
            if device:
                found[key] = (SYS_BLOCK / device / "queue" / key).read_text().strip()
    facts: dict[str, str | bool] = {**found}
    if "rotational" in found:
        facts["rotational"] = found["rotational"] == "1"
    if "[" in found.get("scheduler", ""):
        facts["scheduler"] = found["scheduler"].partition("[")[2].partition("]")[0]
    return facts


def is_local(conninfo: Connectable) -> bool:
    """True if the server runs on this host: by its socket, or its processes are visible."""
    host = str(conninfo.kwargs().get("host") or "")
    return host.startswith(("/", "@")) or locate_postmaster(conninfo) is not None


def locate_postmaster(conninfo: Connectable) -> int | None:
    """Return the postmaster's PID if it is visible on this host; connects once.

    None if it is not, or if the server cannot be reached.
    """
    import psycopg

    try:
        with connect(conninfo) as connection:
            major = connection.info.server_version // 10_000
            session = connection.execute(queries_for(major)["session"].text.encode()).fetchone()
            if session is None:
                return None
            # The backend's process can only be seen while it is connected.
            return find_postmaster(session["backend_pid"], session["started_unix_s"])
    except (psycopg.Error, KeyError):
        return None
