"""The WAL's directory: in the data directory, or elsewhere with a symbolic link to it.

A move copies first and switches the link last, so that at any moment the data directory's
``pg_wal`` or ``pg_wal.before`` is the complete WAL; :func:`finish_move` completes or reverts an
interrupted move.
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
from pgdyno.server.local.safefiles import as_server_account_in, copy_tree, remove_directory

_NAME = "pg_wal"
_BEFORE = "pg_wal.before"


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

    ``last`` is the last segment that is needed, if known; later ones stay on their disk (see
    _spare_segments.py).
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
