"""A disk in memory: a tmpfs of limited size, mounted in the cluster's directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pgdyno.disk.mounting import program, require_mounting, run_program, unmount_all
from pgdyno.errors import SetupError, UsageError
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.account import server_account
from pgdyno.spec.disk import DiskPlan
from pgdyno.spec.units import format_size

_STEP_BYTES = 64 << 20
_BUSY_S_MAX = 10.0


class TmpfsDisk(Struct, frozen=True):
    """A mounted tmpfs."""

    path: Path
    size_bytes: int
    kind: Literal["tmpfs"] = "tmpfs"
    emulated: None = None

    def close(self) -> None:
        """Unmount it, which discards its data."""
        unmount_all(self.path, patience_s=_BUSY_S_MAX)


def default_size_bytes() -> int:
    """Return half of the memory available now, in multiples of 64 MB."""
    return max(_STEP_BYTES, available_bytes() // 2 // _STEP_BYTES * _STEP_BYTES)


def available_bytes() -> int:
    """Return the memory available without swapping, by the kernel's estimate."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise SetupError("/proc/meminfo does not show the available memory", code="no-meminfo")


def open_tmpfs(plan: DiskPlan, directory: Path) -> TmpfsDisk:
    """Mount a tmpfs of the plan's size on ``directory/mount``."""
    size = plan.size_bytes or default_size_bytes()
    if os.geteuid() != 0:
        raise SetupError(
            "tmpfs: only root may mount a tmpfs",
            code="not-root",
            hint="use plain:/dev/shm, which is also in memory, with the size set by the system",
        )
    require_mounting()
    if size > available_bytes():
        raise UsageError(
            f"tmpfs:{format_size(size)}: more than the {available_bytes() >> 20:,} MB of available"
            " memory",
            code="disk-size",
        )
    path = directory / "mount"
    shared_directory(path)
    account = server_account()
    assert account is not None
    options = f"size={size},mode=0700,uid={account.uid},gid={account.gid},nosuid,nodev"
    mount = program("mount", "mount")
    command = [mount, "-t", "tmpfs", "-o", options, "pgdyno", str(path)]
    run_program(command, "mount a tmpfs")
    return TmpfsDisk(path, size)
