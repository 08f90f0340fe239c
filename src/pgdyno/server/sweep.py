"""Clears away what crashed runs left: servers, folders, sockets, shared memory, changed settings.

Only what is provably ours and ownerless is touched: a cluster's folder or an undo file is dead when
its lock is free, because the kernel frees it with the process that held it.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from pgdyno.errors import PgdynoError, SetupError
from pgdyno.server.conninfo import ConnInfo
from pgdyno.server.leftovers import end_leftovers
from pgdyno.server.locks import locked, try_lock
from pgdyno.server.places import clusters_dir, undo_dir
from pgdyno.server.settings import Settings
from pgdyno.server.undo import conninfo_of, read_undo, try_lock_undo


def sweep() -> list[str]:
    """Clear up after crashed runs; a sentence for each thing done or found impossible."""
    return [*_sweep_clusters(), *_sweep_undo_files()]


def _sweep_clusters() -> list[str]:
    done = []
    home = clusters_dir()
    with locked(home / ".lock"):
        for folder in sorted(path for path in home.iterdir() if path.is_dir()):
            lock = try_lock(folder / "lock")
            if lock is None:
                continue
            try:
                end_leftovers(folder / "data")
                _remove_far_socket_dir(folder)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
            done.append(f"removed the server of a crashed run in {folder}")
    return done


def _remove_far_socket_dir(folder: Path) -> None:
    """A socket directory that lies in /tmp, because the folder's own path was too long."""
    try:
        directory = Path(json.loads((folder / "cluster.json").read_text())["socket_dir"])
    except (OSError, ValueError, KeyError):
        return
    if directory.parent == Path("/tmp") and directory.name.startswith("pgdyno-"):
        shutil.rmtree(directory, ignore_errors=True)


def _sweep_undo_files() -> list[str]:
    done = []
    for path in sorted(undo_dir().glob("*.json")):
        lock = try_lock_undo(path)
        if lock is None:
            continue
        os.close(lock)
        try:
            done.append(_undo(path))
        except PgdynoError as error:
            done.append(f"settings that a crashed run changed are not yet back: {error.message}")
    return done


def _undo(path: Path) -> str:
    fields = read_undo(path)
    conninfo = conninfo_of(fields)
    names = ", ".join(fields["before"])
    settings = Settings(conninfo, undo_path=path, may_apply=True)
    if not settings.take_over():
        raise _not_the_same(path, conninfo)
    settings.restore_all()
    return f"restored {names} on {conninfo.uri_without_password} after a crashed run"


def _not_the_same(path: Path, conninfo: ConnInfo) -> SetupError:
    return SetupError(
        f"another server answers at {conninfo.uri_without_password} than the one in {path}",
        code="undo-file",
    )
