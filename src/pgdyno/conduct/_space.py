"""Checks of free space on the server's disks, before the space is needed: for the tables of a run,
and a warning at the start when the WAL disk is smaller than the WAL may become.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pgdyno.conduct.watch import Watcher
from pgdyno.errors import SetupError
from pgdyno.probe.space import sample_space
from pgdyno.record import Recorder
from pgdyno.spec.units import format_size
from pgdyno.stats.filling import wal_wanted
from pgdyno.workload.room import Room

_GB = 1e9


def check_room(room: Room, data_dir: Path | None, max_wal_size_bytes: int | None) -> None:
    """Raise SetupError where the tables of a run would not fit on the server's disks.

    Does nothing where the disks are not accessible from here.
    """
    if data_dir is None:
        return
    try:
        disks = sample_space(data_dir)
        tablespace_free = None if room.location is None else _free_bytes(room.location)
    except OSError:
        return
    if tablespace_free is not None:
        name = f"the disk of the tablespace in {room.location}"
        _refuse_if_full(room, name, tablespace_free, 0)
    for disk in disks:
        holds = disk["holds"].split(",")
        wal = _wal_kept(room, disk, max_wal_size_bytes) if "wal" in holds else 0
        tables = "data" in holds and tablespace_free is None
        name = f"the disk of the {' and '.join(holds).replace('wal', 'WAL')}"
        name += f" ({data_dir})" if "data" in holds else ""
        if tables:
            _refuse_if_full(room, name, disk["free_bytes"], wal)
        elif wal > disk["free_bytes"]:
            raise SetupError(
                f"making pgbench's tables at scale {room.scale:,} writes about {_gb(wal)} of WAL,"
                f" and {name} has {_gb(disk['free_bytes'])} free",
                code="no-room",
                hint="a smaller max_wal_size, a larger disk for the WAL, or a smaller scale with"
                " -s",
            )


def _refuse_if_full(room: Room, name: str, free_bytes: int, wal_bytes: int) -> None:
    needed = room.table_bytes + wal_bytes
    if needed <= free_bytes:
        return
    usable = free_bytes + room.freed_bytes
    # A small scale writes less WAL than the server would keep.
    fits = max(
        (usable - wal_bytes) // room.branch_bytes,
        usable // (room.branch_bytes + room.branch_wal_bytes),
    )
    with_wal = f" with {_gb(wal_bytes)} of WAL" if wal_bytes else ""
    raise SetupError(
        f"pgbench's tables at scale {room.scale:,} need about {_gb(needed)}{with_wal}, and {name}"
        f" has {_gb(free_bytes)} free",
        code="no-room",
        hint=f"-s {fits} fits" if fits >= 1 else "free some space, or use another disk",
    )


def _wal_kept(room: Room, disk: dict[str, Any], max_wal_size_bytes: int | None) -> int:
    """Return the WAL in addition to that present; the server removes WAL beyond max_wal_size."""
    kept = room.wal_bytes
    if max_wal_size_bytes is not None:
        kept = min(kept, int(wal_wanted(max_wal_size_bytes)))
    return max(0, kept - (disk["wal_dir_bytes"] or 0))


def _free_bytes(directory: str) -> int:
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / _GB:,.{0 if size_bytes >= 10 * _GB else 2}f} GB"


def note_small_wal_disk(
    data_dir: Path, max_wal_size_bytes: int, recorder: Recorder, watcher: Watcher
) -> None:
    """Warn, also in the run file, of a WAL disk smaller than the WAL may become.

    Does nothing where the disk is not accessible from here.
    """
    try:
        rows = sample_space(data_dir)
    except OSError:
        return
    for row in rows:
        if row["wal_dir_bytes"] is None:
            continue
        space = row["free_bytes"] + row["wal_dir_bytes"]
        if space < wal_wanted(max_wal_size_bytes):
            text = (
                f"the WAL has {space >> 20:,} MB of disk space, and may grow beyond max_wal_size ="
                f" {format_size(max_wal_size_bytes)} before a checkpoint removes any of it; a full"
                " WAL disk stops the server"
            )
            watcher.note(f"warning: {text}")
            recorder.add_event("warning", "WAL disk smaller than max_wal_size", {"message": text})
