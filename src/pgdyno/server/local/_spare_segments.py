"""Recycled WAL segments of a stopped server, which stay on their disk when the WAL is moved.

A checkpoint renames old segments to future names for reuse. Copying them with the WAL would be
wasted work; deleting them would make the server create and zero new files, which a comparison of
two disks would then measure. So they are moved to a directory beside the WAL's, and when the WAL
returns they get the next names, as a checkpoint would give them. The old contents of a segment
carry their old position in the WAL (``xlp_pageaddr``), by which PostgreSQL recognises them as old.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from pgdyno.server.local._installation import Installation
from pgdyno.server.local.controldata import control_data
from pgdyno.server.local.safefiles import as_server_account, make_directory

_SPARE = "pg_wal.spare"
_SEGMENT = re.compile(r"[0-9A-F]{24}")
_XLOG_FILE_BYTES = 1 << 32  # The second part of a segment's name counts these, the third segments.


def last_segment(installation: Installation, data_dir: Path) -> str | None:
    """Return the last segment that a start needs; ``None`` if the shutdown was not clean."""
    control = control_data(installation, data_dir)
    return control.redo_segment if control.shut_down else None


def make_spare_directory(data_dir: Path) -> None:
    """Create the directory beside the data directory, where perhaps only root may.

    Must not be called as the server's account.
    """
    spare_dir = data_dir.parent / _SPARE
    with as_server_account():
        exists = spare_dir.is_dir()
    if not exists:
        make_directory(spare_dir)


def set_spare_segments_aside(data_dir: Path, wal_dir: Path, last: str) -> None:
    """Move the segments after ``last`` out of ``wal_dir``, the WAL of ``data_dir``.

    They stay on the same disk. The caller works as the server's account (see safefiles.py).
    """
    segments = _segments(wal_dir)
    if last not in segments:
        return
    # The checkpoint's record may extend into the next segment.
    needed = _following(last, 1, _size_bytes(wal_dir, last))
    for name in segments:
        if name[:8] == last[:8] and name > needed:
            spare_dir = _spare_directory(data_dir, wal_dir)
            if not spare_dir.exists():
                make_directory(spare_dir)
            count = len(list(spare_dir.iterdir()))
            (wal_dir / name).rename(spare_dir / f"{count:06}-{os.getpid()}")


def return_spare_segments(data_dir: Path, wal_dir: Path) -> None:
    """Move the spare segments of this disk back, after the last segment in ``wal_dir``."""
    spare_dir, segments = _spare_directory(data_dir, wal_dir), _segments(wal_dir)
    if not spare_dir.is_dir() or not segments:
        return
    last, size_bytes = segments[-1], _size_bytes(wal_dir, segments[-1])
    for count, spare in enumerate(sorted(spare_dir.iterdir()), start=1):
        if spare.stat().st_size == size_bytes:
            spare.rename(wal_dir / _following(last, count, size_bytes))
        else:
            spare.unlink()
    with contextlib.suppress(PermissionError):  # In a directory of root it stays, empty.
        spare_dir.rmdir()


def _spare_directory(data_dir: Path, wal_dir: Path) -> Path:
    """Return the directory beside the WAL's, outside the data directory and so of any backup."""
    inside = wal_dir.parent == Path(os.path.realpath(data_dir))
    return (data_dir.parent if inside else wal_dir.parent) / _SPARE


def _segments(wal_dir: Path) -> list[str]:
    return sorted(path.name for path in wal_dir.iterdir() if _SEGMENT.fullmatch(path.name))


def _size_bytes(wal_dir: Path, name: str) -> int:
    return (wal_dir / name).stat().st_size


def _following(name: str, count: int, size_bytes: int) -> str:
    """Return the name of the ``count``-th segment after ``name``, on the same timeline."""
    per_file = _XLOG_FILE_BYTES // size_bytes
    number = int(name[8:16], 16) * per_file + int(name[16:], 16) + count
    return f"{name[:8]}{number // per_file:08X}{number % per_file:08X}"
