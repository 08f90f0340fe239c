"""The server's machine, as far as it can be read without root.

Sources: Documentation/admin-guide/sysctl/vm.rst, Documentation/admin-guide/mm/transhuge.rst,
Documentation/block/queue-sysfs.rst of the Linux kernel; proc(5). A file that this kernel or this
container does not have leaves its value out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import asdict

from pgdyno.json_types import Row
from pgdyno.looks.look import Look, MissingLook, ServerMachine
from pgdyno.probe import SYS_BLOCK, device_of, wal_directory
from pgdyno.probe.space import sample_space

_PROC = Path("/proc")
_SYS = Path("/sys")
_VM = (
    *("overcommit_memory", "overcommit_ratio", "dirty_ratio", "dirty_background_ratio"),
    *("dirty_bytes", "dirty_background_bytes", "swappiness", "zone_reclaim_mode", "nr_hugepages"),
)
_MEMINFO = (
    *("MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Dirty", "Writeback", "PageTables"),
    *("CommitLimit", "Committed_AS", "HugePages_Total", "HugePages_Free", "Hugepagesize"),
)
_VMSTAT = ("oom_kill", "compact_stall", "pswpin", "pswpout")
_KILO = ("kB", 1024)


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return None


def _numbers(path: Path, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield names and numbers of a file with a name and a number in each line, kB in bytes."""
    for line in (_text(path) or "").splitlines():
        words = line.replace(":", " ").split()
        if words and words[0] in names and len(words) > 1 and words[1].isdigit():
            factor = _KILO[1] if words[2:] == [_KILO[0]] else 1
            yield words[0], int(words[1]) * factor


def _chosen(path: Path) -> str | None:
    """Return the word in brackets, as in ``always [madvise] never``."""
    text = _text(path)
    return text.partition("[")[2].partition("]")[0] if text and "[" in text else text


def _kernel(_machine: ServerMachine) -> list[Row]:
    vm = {name: _text(_PROC / "sys" / "vm" / name) for name in _VM}
    huge = _SYS / "kernel" / "mm" / "transparent_hugepage"
    row: Row = {
        **{name: int(text) for name, text in vm.items() if text and text.isdigit()},
        "thp_enabled": _chosen(huge / "enabled"),
        "thp_defrag": _chosen(huge / "defrag"),
        "uptime_s": float((_text(_PROC / "uptime") or "0").split()[0]),
    }
    row |= dict(_numbers(_PROC / "meminfo", _MEMINFO))
    return [row | dict(_numbers(_PROC / "vmstat", _VMSTAT))]


def _processes(machine: ServerMachine) -> list[Row]:
    """Memory of the server's processes: in swap, and in page tables."""
    if machine.postmaster_pid is None:
        raise ValueError("its processes are not visible")
    names = ("PPid", "VmSwap", "VmPTE")
    all_rows = {path.name: dict(_numbers(path / "status", names)) for path in _PROC.glob("[0-9]*")}
    postmaster = machine.postmaster_pid
    rows = [
        row
        for pid, row in all_rows.items()
        if pid == str(postmaster) or row.get("PPid") == postmaster
    ]
    return [
        {
            "processes": len(rows),
            "swap_bytes": sum(row.get("VmSwap", 0) for row in rows),
            "page_table_bytes": sum(row.get("VmPTE", 0) for row in rows),
        }
    ]


def _devices(machine: ServerMachine) -> list[Row]:
    """Block devices below the data directory and the WAL, those that they are made of included."""
    if machine.data_dir is None:
        raise ValueError("the data directory is hidden from this role")
    rows: dict[str, Row] = {}
    for holds, path in (("data", machine.data_dir), ("wal", wal_directory(machine.data_dir))):
        for name in _stack(device_of(path)):
            row = rows.setdefault(name, _device(name))
            row["holds"] = ",".join(filter(None, (row.get("holds"), holds)))
    return list(rows.values())


def _stack(name: str) -> Iterator[str]:
    """Yield a block device and the devices below it."""
    if not name:
        return
    yield name
    below = SYS_BLOCK / name / "slaves"
    for each in sorted(below.iterdir()) if below.is_dir() else []:
        whole = each.resolve()
        yield from _stack(whole.parent.name if (whole / "partition").exists() else each.name)


def _device(name: str) -> Row:
    queue = SYS_BLOCK / name / "queue"
    read_ahead = _text(queue / "read_ahead_kb")
    return {
        "device": name,
        "rotational": _text(queue / "rotational") == "1",
        "scheduler": _chosen(queue / "scheduler"),
        "read_ahead_kb": int(read_ahead) if read_ahead and read_ahead.isdigit() else None,
        "encrypted": (_text(SYS_BLOCK / name / "dm" / "uuid") or "").startswith("CRYPT-"),
    }


def _space(machine: ServerMachine) -> list[Row]:
    if machine.data_dir is None:
        raise ValueError("the data directory is hidden from this role")
    return [asdict(disk) for disk in sample_space(machine.data_dir)]


def _flags(rows: Sequence[Row]) -> MissingLook | None:
    """Return a note that only root sees the state of encrypted devices; None without any."""
    encrypted = [row["device"] for row in rows if row["encrypted"]]
    if not encrypted:
        return None
    return MissingLook(
        f"whether dm-crypt uses work queues on {', '.join(encrypted)} is shown to root alone",
        f"as root: dmsetup table {encrypted[0]}, and see no_read_workqueue, no_write_workqueue",
    )


LOOKS = (
    Look("kernel", "settings and memory of the kernel", read=_kernel),
    Look("process_memory", "memory of the server's processes", read=_processes),
    Look("block_device", "block devices of data and WAL", read=_devices, hidden=_flags),
    Look("disk_space", "space on the disks of data and WAL", read=_space),
)
