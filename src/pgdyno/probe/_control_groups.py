"""Control groups of a process, of version 2 and version 1, and how often their CPU quota stops it.

Sources: Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst of the
Linux kernel. In a period (cpu.cfs_period_us, 100 ms by default) in which the group has used up its
quota, its processes do not run until the next one begins. Version 2 counts the time in microseconds
(throttled_usec), version 1 in nanoseconds (throttled_time); both add up the time of all CPUs.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from pgdyno.probe._disks import parse_mountinfo
from pgdyno.probe._host import PROC
from pgdyno.record.fileformat import MetricRow


def group_texts(pid: int | None, version: int, controller: str, name: str) -> list[str]:
    """Return the contents of a file of the process's control group and of all groups above.

    ``pid`` None is pgdyno itself; ``controller`` is of version 1 alone.
    """
    texts = []
    for directory in group_directories(pid, version, controller):
        with contextlib.suppress(OSError):
            texts.append((directory / name).read_text().strip())
    return texts


def group_directories(pid: int | None, version: int, controller: str) -> list[Path]:
    """Return the directories of the process's control group and of all groups above it."""
    try:
        top, path = _group_path(pid, version, controller)
    except OSError:
        return []
    if top is None:
        return []
    # In a container the path may be that of the host's tree, which does not exist here.
    groups = [path, *path.parents] if (top / str(path).lstrip("/")).exists() else [Path("/")]
    return [top / str(group).lstrip("/") for group in groups]


def _group_path(pid: int | None, version: int, controller: str) -> tuple[Path | None, Path]:
    """Return the mount point of the hierarchy, and the process's group in it."""
    path = Path("/")
    for line in (PROC / str(pid or "self") / "cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "" if version == 2 else controller in controllers.split(","):
            path = Path(group)
    for mount in parse_mountinfo((PROC / "self" / "mountinfo").read_text()):
        if version == 2 and mount.kind == "cgroup2":
            return Path(mount.point), path
        if version == 1 and mount.kind == "cgroup" and controller in mount.options.split(","):
            return Path(mount.point), path
    return None, path


class Throttling:
    """Sampler of the CPU quota of one process's control groups."""

    def __init__(self) -> None:
        self._files: list[Path] = []

    def follow(self, pid: int) -> None:
        """Sample the control groups that ``pid`` is in now."""
        directories = [*group_directories(pid, 2, ""), *group_directories(pid, 1, "cpu")]
        files = [directory / "cpu.stat" for directory in directories]
        self._files = [file for file in files if file.exists()]

    def sample(self) -> list[MetricRow]:
        """Return a row for metric_control_group for each group that has a quota."""
        rows: list[MetricRow] = []
        for file in self._files:
            with contextlib.suppress(OSError, ValueError):
                row = parse_cpu_stat(file.read_text())
                if row["nr_periods"]:
                    rows.append({**row, "control_group": str(file.parent)})
        return rows


def parse_cpu_stat(text: str) -> dict[str, int]:
    """Parse a group's cpu.stat: periods with a quota, those cut short, and the time lost in them.

    The time is in microseconds over all CPUs. Raises ValueError for a value that is no number.
    """
    words = (line.split() for line in text.splitlines())
    values = {name: int(value) for name, value in words}
    lost_us = values.get("throttled_usec", values.get("throttled_time", 0) // 1000)
    return {
        "nr_periods": values.get("nr_periods", 0),
        "nr_throttled": values.get("nr_throttled", 0),
        "throttled_us": lost_us,
    }
