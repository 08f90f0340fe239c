"""Checks of a spec against the machine: the CPUs that pgdyno may use, the directory of acks, and
free space on the server's disks for the tables and the WAL.
"""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.conduct.watch import Watcher
from pgdyno.errors import SetupError, UsageError
from pgdyno.numbers import size
from pgdyno.probe.space import DiskSpace, sample_space
from pgdyno.record import Recorder
from pgdyno.spec import Spec
from pgdyno.spec.units import format_size
from pgdyno.stats.filling import disk_name, wal_beyond_disk, wal_wanted
from pgdyno.workload.table_space import TableSpace


def check_machine(spec: Spec) -> None:
    """Raise :class:`UsageError` for unusable CPUs or a directory of acks that is not empty."""
    _check_cpus(spec.load.cpus or [])
    if spec.load.acks is not None:
        _check_acks(Path(spec.load.acks).expanduser())


def _check_cpus(cpus: list[int]) -> None:
    if not cpus:
        return
    if not hasattr(os, "sched_getaffinity"):
        raise UsageError("cpus: threads cannot be pinned on this system", code="cpus-unsupported")
    usable = sorted(os.sched_getaffinity(0))
    for cpu in cpus:
        if cpu not in usable:
            raise UsageError(
                f"cpus: pgdyno may not use CPU {cpu}",
                code="no-such-cpu",
                hint=f"it may use {_ranges(usable)}",
            )


def _ranges(numbers: list[int]) -> str:
    """Format CPU numbers, as ``0-3, 8``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _check_acks(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"acks: {directory} is not a directory", code="acks-directory")
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(
            f"acks: {directory} is not empty",
            code="acks-directory",
            hint="the ack ledgers of different runs must not be mixed; name another directory",
        )


def check_table_space(
    needed: TableSpace,
    data_dir: Path | None,
    max_wal_size_bytes: int | None,
    keep_free_bytes: int = 0,
) -> None:
    """Raise SetupError where the tables of a run would not fit on the server's disks, or would
    leave less than ``keep_free_bytes`` there.

    Does nothing where the disks are not accessible from here.
    """
    if data_dir is None:
        return
    try:
        disks = sample_space(data_dir)
        tablespace_free = None if needed.location is None else _free_bytes(needed.location)
    except OSError:
        return
    if tablespace_free is not None:
        name = f"the disk of the tablespace in {needed.location}"
        _refuse_if_full(needed, name, tablespace_free, 0, keep_free_bytes)
    for disk in disks:
        holds_data = "data" in disk.holds
        wal = _wal_kept(needed, disk, max_wal_size_bytes) if "wal" in disk.holds else 0
        name = disk_name(disk.holds) + (f" ({data_dir})" if holds_data else "")
        if holds_data and tablespace_free is None:
            _refuse_if_full(needed, name, disk.free_bytes, wal, keep_free_bytes)
        elif wal + keep_free_bytes > disk.free_bytes:
            raise SetupError(
                f"making {needed.in_words} writes about {size(wal)} of WAL,"
                f" and {name} has {size(disk.free_bytes)} free{_left(keep_free_bytes)}",
                code="no-space",
                hint="a smaller max_wal_size, a larger disk for the WAL, or a smaller scale with"
                " -s",
            )


def _refuse_if_full(
    needed: TableSpace, name: str, free_bytes: int, wal_bytes: int, keep_free_bytes: int
) -> None:
    needed_bytes = needed.table_bytes + wal_bytes
    if needed_bytes + keep_free_bytes <= free_bytes:
        return
    usable = free_bytes - keep_free_bytes + needed.freed_bytes
    # A small scale writes less WAL than the server would keep.
    fits = max(
        (usable - wal_bytes) // needed.branch_bytes,
        usable // (needed.branch_bytes + needed.branch_wal_bytes),
    )
    with_wal = f" with {size(wal_bytes)} of WAL" if wal_bytes else ""
    raise SetupError(
        f"{needed.in_words} need about {size(needed_bytes)}{with_wal}, and"
        f" {name} has {size(free_bytes)} free{_left(keep_free_bytes)}",
        code="no-space",
        hint=f"-s {fits} fits"
        if fits >= 1
        else "free some space, or use another disk; a capture has fewer rows with -s 0.01",
    )


def _left(keep_free_bytes: int) -> str:
    return f", of which {size(keep_free_bytes)} must be left free" if keep_free_bytes else ""


def _wal_kept(needed: TableSpace, disk: DiskSpace, max_wal_size_bytes: int | None) -> int:
    """Return the WAL in addition to that present; the server removes WAL beyond max_wal_size."""
    kept = needed.wal_bytes
    if max_wal_size_bytes is not None:
        kept = min(kept, int(wal_wanted(max_wal_size_bytes)))
    return max(0, kept - (disk.wal_dir_bytes or 0))


def _free_bytes(directory: str) -> int:
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def note_small_wal_disk(
    data_dir: Path, max_wal_size_bytes: int, recorder: Recorder, watcher: Watcher
) -> None:
    """Warn, also in the run file, of a WAL disk smaller than the WAL may become.

    Does nothing where the disk is not accessible from here.
    """
    try:
        disks = sample_space(data_dir)
    except OSError:
        return
    for disk in disks:
        if disk.wal_dir_bytes is None:
            continue
        space_bytes = disk.free_bytes + disk.wal_dir_bytes
        if space_bytes < wal_wanted(max_wal_size_bytes):
            cause = wal_beyond_disk(space_bytes, format_size(max_wal_size_bytes))
            text = f"{cause}; a full WAL disk stops the server"
            watcher.note(f"warning: {text}")
            recorder.add_event("warning", "WAL disk smaller than max_wal_size", {"message": text})
