"""WAL segments that a stopped server had ready for reuse: they stay with their disk.

A checkpoint renames segments that are done with to names that are yet to come. Moving those with
the WAL would be much copying for nothing; leaving them out would make the server write new files
full of zeros, which a comparison of two disks would then measure. So they are set aside beside the
WAL's directory, and when the WAL comes back they get the names that come next, as a checkpoint
would give them. What a segment holds from its earlier life carries its old position in the WAL, by
which PostgreSQL tells that it ends before (``xlp_pageaddr``).
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from pgdyno.server.local._installation import Installation
from pgdyno.server.local.controldata import control_data
from pgdyno.server.local.safefiles import acting, make_directory

_ASIDE = "pg_wal.spare"
_SEGMENT = re.compile(r"[0-9A-F]{24}")
_XLOG_FILE_BYTES = 1 << 32  # A segment's name counts in these, and in segments within.


def last_segment(installation: Installation, data_dir: Path) -> str | None:
    """The last segment that a start needs; ``None`` unless the server was shut down cleanly."""
    control = control_data(installation, data_dir)
    return control.redo_segment if control.shut_down else None


def make_spare_directory(data_dir: Path) -> None:
    """Have the directory beside the data directory, which only root may be able to make.

    Not to be called as the account.
    """
    aside = data_dir.parent / _ASIDE
    with acting():
        there = aside.is_dir()
    if not there:
        make_directory(aside)


def set_spare_segments_aside(data_dir: Path, wal_dir: Path, last: str) -> None:
    """Take the segments after ``last`` out of ``wal_dir``, where the WAL of ``data_dir`` lies, on
    the same disk. The caller works as the account (see safefiles.py)."""
    segments = _segments(wal_dir)
    if last not in segments:
        return
    # The checkpoint's record may reach into the segment after the one that it begins in.
    needed = _following(last, 1, _size_bytes(wal_dir, last))
    for name in segments:
        if name[:8] == last[:8] and name > needed:
            aside = _spare_directory(data_dir, wal_dir)
            if not aside.exists():
                make_directory(aside)
            (wal_dir / name).rename(aside / f"{len(list(aside.iterdir())):06}-{os.getpid()}")


def return_spare_segments(data_dir: Path, wal_dir: Path) -> None:
    """Put what was set aside on this disk behind the last segment in ``wal_dir``."""
    aside, segments = _spare_directory(data_dir, wal_dir), _segments(wal_dir)
    if not aside.is_dir() or not segments:
        return
    last, size_bytes = segments[-1], _size_bytes(wal_dir, segments[-1])
    for count, spare in enumerate(sorted(aside.iterdir()), start=1):
        if spare.stat().st_size == size_bytes:
            spare.rename(wal_dir / _following(last, count, size_bytes))
        else:
            spare.unlink()
    with contextlib.suppress(PermissionError):  # In a directory of ours it stays, empty.
        aside.rmdir()


def _spare_directory(data_dir: Path, wal_dir: Path) -> Path:
    """Beside the data directory for a WAL that is in it, where no backup finds it."""
    inside = wal_dir.parent == Path(os.path.realpath(data_dir))
    return (data_dir.parent if inside else wal_dir.parent) / _ASIDE


def _segments(wal_dir: Path) -> list[str]:
    return sorted(path.name for path in wal_dir.iterdir() if _SEGMENT.fullmatch(path.name))


def _size_bytes(wal_dir: Path, name: str) -> int:
    return (wal_dir / name).stat().st_size


def _following(name: str, count: int, size_bytes: int) -> str:
    """The name of the segment ``count`` after ``name``, on the same timeline."""
    per_file = _XLOG_FILE_BYTES // size_bytes
    number = int(name[8:16], 16) * per_file + int(name[16:], 16) + count
    return f"{name[:8]}{number // per_file:08X}{number % per_file:08X}"
