"""The WAL's directory: in the data directory, or elsewhere with a symbolic link to it.

A move copies first and switches the link last, so that at any moment the data directory's
``pg_wal`` or ``pg_wal.before`` is the complete WAL; :func:`finish_move` completes or reverts an
interrupted move.

Recycled segments stay on their disk. A checkpoint renames old segments to future names for reuse.
Copying them with the WAL would be wasted work; deleting them would make the server create and zero
new files, which a comparison of two disks would then measure. So they are moved to a directory
beside the WAL's, and when the WAL returns they get the next names, as a checkpoint would give them.
The old contents of a segment carry their old position in the WAL (``xlp_pageaddr``), by which
PostgreSQL recognises them as old.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.local._installation import Installation
from pgdyno.server.local.controldata import control_data
from pgdyno.server.local.safefiles import (
    as_server_account,
    as_server_account_in,
    copy_tree,
    make_directory,
    remove_directory,
)

_NAME = "pg_wal"
_BEFORE = "pg_wal.before"
_SPARE = "pg_wal.spare"
_XLOG_FILE_BYTES = 1 << 32  # The second part of a segment's name counts these, the third segments.


def real_wal_dir(data_dir: Path) -> Path:
    """Return the directory that contains the WAL, links resolved."""
    return Path(os.path.realpath(data_dir / _NAME))


def use_wal_parent(data_dir: Path, parent: Path | None) -> None:
    """Have the WAL in ``parent`` before a first start; ``None`` leaves it where it is.

    If the data directory has a link and ``parent`` contains a ``pg_wal``, it is used as it is: both
    come from an earlier mount of the same disks.
    """
    with as_server_account_in(data_dir):
        _use_parent(data_dir, parent)


def _use_parent(data_dir: Path, parent: Path | None) -> None:
    finish_move(data_dir)
    link = data_dir / _NAME
    if parent is not None and (parent / _NAME).is_dir() and link.is_symlink():
        link.unlink()
        link.symlink_to(parent / _NAME)
    elif not link.is_dir():
        raise SetupError(
            f"the WAL is missing: {link} points to {real_wal_dir(data_dir)}", code="wal-directory"
        )
    elif parent is not None:
        move_wal(data_dir, parent)


def move_wal(data_dir: Path, parent: Path | None, *, last: str | None = None) -> None:
    """Move the WAL to ``parent/pg_wal`` (``None``: into the data directory); no server may run.

    ``last`` is the last segment that is needed, if known; later ones stay on their disk.
    """
    if last is not None and parent is not None:
        make_spare_directory(data_dir)
    with as_server_account_in(data_dir):
        _move(data_dir, parent, last)


def _move(data_dir: Path, parent: Path | None, last: str | None) -> None:
    finish_move(data_dir)
    link, present = data_dir / _NAME, real_wal_dir(data_dir)
    linked = link.is_symlink()
    if not linked if parent is None else present == parent.resolve() / _NAME:
        return
    target = data_dir / (_NAME + ".new") if parent is None else parent / _NAME
    if parent is None:
        remove_directory(target)
    elif target.exists():
        raise SetupError(f"{parent} already contains {_NAME}", code="wal-directory")
    if last is not None:
        set_spare_segments_aside(data_dir, present, last)
    try:
        _copy_durably(present, target)
    except SetupError:
        return_spare_segments(data_dir, present)
        raise
    link.rename(data_dir / _BEFORE)
    if parent is None:
        target.rename(link)
    else:
        link.symlink_to(target)
    _fsync(data_dir)
    finish_move(data_dir)
    if linked:
        remove_directory(present)
    return_spare_segments(data_dir, real_wal_dir(data_dir))


def finish_move(data_dir: Path) -> None:
    """Complete an interrupted move, or revert it if ``pg_wal`` is not in place yet.

    The caller works as the server's account (see safefiles.py).
    """
    before, link = data_dir / _BEFORE, data_dir / _NAME
    if not os.path.lexists(link) and os.path.lexists(before):
        before.rename(link)
    elif before.is_symlink():
        before.unlink()
    elif before.exists():
        remove_directory(before)


def copy_linked_wal(data_dir: Path) -> None:
    """Replace a copied data directory's link to the original's WAL by a copy of that WAL."""
    link = data_dir / _NAME
    with as_server_account_in(data_dir):
        if link.is_symlink():
            original = real_wal_dir(data_dir)
            link.unlink()
            copy_tree(original, link)


def _copy_durably(source: Path, target: Path) -> None:
    """Copy a tree and flush it to disk."""
    copy_tree(source, target)
    for directory, _, files in os.walk(target):
        for name in files:
            _fsync(Path(directory) / name)
        _fsync(Path(directory))
    _fsync(target.parent)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        # Some file systems do not sync directories and say so with EINVAL.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


_SEGMENT = r"[0-9A-F]{24}"


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
    return sorted(path.name for path in wal_dir.iterdir() if re.fullmatch(_SEGMENT, path.name))


def _size_bytes(wal_dir: Path, name: str) -> int:
    return (wal_dir / name).stat().st_size


def _following(name: str, count: int, size_bytes: int) -> str:
    """Return the name of the ``count``-th segment after ``name``, on the same timeline."""
    per_file = _XLOG_FILE_BYTES // size_bytes
    number = int(name[8:16], 16) * per_file + int(name[16:], 16) + count
    return f"{name[:8]}{number // per_file:08X}{number % per_file:08X}"
