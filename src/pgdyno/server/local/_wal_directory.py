"""The WAL's directory: in the data directory, or elsewhere with a link to it from there.

Moving it copies first and switches the link last, so that at each moment the data directory or its
``pg_wal.before`` leads to the whole WAL; :func:`heal` ends a move that was broken off in between.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.server.local._spare_segments import (
    make_spare_directory,
    return_spare_segments,
    set_spare_segments_aside,
)
from pgdyno.server.local.safefiles import copy_tree, remove_directory, working_in

_NAME = "pg_wal"
_BEFORE = "pg_wal.before"


def real_wal_dir(data_dir: Path) -> Path:
    """Where the WAL really lies."""
    return Path(os.path.realpath(data_dir / _NAME))


def place_wal(data_dir: Path, place: Path | None) -> None:
    """Have the WAL in ``place`` before a first start; ``None`` leaves it where it is.

    A ``pg_wal`` that is in ``place`` already is what the data directory then uses, if it linked to
    one before: both come from another mount of the same disks.
    """
    with working_in(data_dir):
        _place(data_dir, place)


def _place(data_dir: Path, place: Path | None) -> None:
    heal(data_dir)
    link = data_dir / _NAME
    if place is not None and (place / _NAME).is_dir() and link.is_symlink():
        link.unlink()
        link.symlink_to(place / _NAME)
    elif not link.is_dir():
        raise SetupError(
            f"the WAL is missing: {link} points to {real_wal_dir(data_dir)}", code="wal-directory"
        )
    elif place is not None:
        move_wal(data_dir, place)


def move_wal(data_dir: Path, place: Path | None, *, last: str | None = None) -> None:
    """Move the WAL to ``place/pg_wal`` (``None``: into the data directory); no server may run.

    ``last`` is the last segment that is needed, where that is known; those after it stay with
    their disk (see _spare_segments.py).
    """
    if last is not None and place is not None:
        make_spare_directory(data_dir)
    with working_in(data_dir):
        _move(data_dir, place, last)


def _move(data_dir: Path, place: Path | None, last: str | None) -> None:
    heal(data_dir)
    link, now = data_dir / _NAME, real_wal_dir(data_dir)
    linked = link.is_symlink()
    if not linked if place is None else now == place.resolve() / _NAME:
        return
    fresh = data_dir / (_NAME + ".new") if place is None else place / _NAME
    if place is None:
        remove_directory(fresh)
    elif fresh.exists():
        raise SetupError(f"{place} already contains {_NAME}", code="wal-directory")
    if last is not None:
        set_spare_segments_aside(data_dir, now, last)
    try:
        _copy_durably(now, fresh)
    except SetupError:
        return_spare_segments(data_dir, now)
        raise
    link.rename(data_dir / _BEFORE)
    if place is None:
        fresh.rename(link)
    else:
        link.symlink_to(fresh)
    _fsync(data_dir)
    heal(data_dir)
    if linked:
        remove_directory(now)
    return_spare_segments(data_dir, real_wal_dir(data_dir))


def heal(data_dir: Path) -> None:
    """End a move: undone if the data directory does not lead to the new place yet.

    The caller works in it as the account (see safefiles.py).
    """
    before, link = data_dir / _BEFORE, data_dir / _NAME
    if not os.path.lexists(link) and os.path.lexists(before):
        before.rename(link)
    elif before.is_symlink():
        before.unlink()
    elif before.exists():
        remove_directory(before)


def copy_linked_wal(data_dir: Path) -> None:
    """Give a copied data directory a WAL of its own in place of its link to the original's."""
    link = data_dir / _NAME
    with working_in(data_dir):
        if link.is_symlink():
            original = real_wal_dir(data_dir)
            link.unlink()
            copy_tree(original, link)


def _copy_durably(source: Path, target: Path) -> None:
    """Copy a tree and have it on the disk before this returns."""
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
