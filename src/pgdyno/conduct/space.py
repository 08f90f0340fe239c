"""A word at the start about a WAL disk that is too small for what the WAL may come to take."""

from __future__ import annotations

from pathlib import Path

from pgdyno.conduct.watch import Watcher
from pgdyno.probe.space import sample_space
from pgdyno.record import Recorder
from pgdyno.spec.units import format_size
from pgdyno.stats.filling import wal_wanted


def note_small_wal_disk(
    data_dir: Path, max_wal_size_bytes: int, recorder: Recorder, watcher: Watcher
) -> None:
    """Note it, here and in the run file. Nothing where the disk cannot be looked at."""
    try:
        rows = sample_space(data_dir)
    except OSError:
        return
    for row in rows:
        if row["wal_dir_bytes"] is None:
            continue
        room = row["free_bytes"] + row["wal_dir_bytes"]
        if room < wal_wanted(max_wal_size_bytes):
            text = (
                f"the WAL has {room >> 20:,} MB of disk, and may grow past max_wal_size ="
                f" {format_size(max_wal_size_bytes)} before a checkpoint lets any of it go; a full"
                " WAL disk ends the server"
            )
            watcher.note(f"warning: {text}")
            recorder.add_event("warning", "WAL disk smaller than max_wal_size", {"message": text})
