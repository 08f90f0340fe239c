"""Clears away what crashed runs left: servers, folders, sockets, shared memory.

Only what is provably ours and ownerless is touched: a cluster's folder is dead when its lock is
free, because the kernel frees it with the process that held it. What crashed runs have changed on
servers that are not ours is put back by ``pending.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.server.directories import clusters_dir
from pgdyno.server.local.layout import described
from pgdyno.server.local.leftovers import end_helpers, end_leftovers, helpers, server_processes
from pgdyno.server.local.safefiles import remove_own_folder
from pgdyno.server.locks import locked, try_lock

Release = Callable[[Path], list[str]]
"""Gives back what holds the disks of the cluster in a folder; a sentence for each thing done."""


def sweep(release: Release) -> list[str]:
    """Remove servers of crashed runs; a sentence for each thing done or found impossible.

    ``release`` is called with the folder of each dead cluster, once its server has ended.
    """
    done = []
    home = clusters_dir()
    with locked(home / ".lock"):
        for folder in sorted(path for path in home.iterdir() if path.is_dir()):
            lock = try_lock(folder / "lock")
            if lock is None:
                continue
            try:
                done += _sweep_cluster(folder, release)
            except PgdynoError as error:
                done.append(f"{folder} of a crashed run cannot be removed yet: {error.message}")
            finally:
                os.close(lock)
    return done


def end_server(folder: Path) -> None:
    """End whatever runs of the dead cluster in ``folder``."""
    end_helpers(folder)
    end_leftovers(_data_dir(folder))


def is_served(folder: Path) -> bool:
    """Whether processes of the cluster in ``folder`` run, its guardian among them."""
    return bool(helpers(folder) or server_processes(_data_dir(folder)))


def _data_dir(folder: Path) -> Path:
    return described(folder, "data_dir") or folder / "data"


def _sweep_cluster(folder: Path, release: Release) -> list[str]:
    end_server(folder)
    released = release(folder)
    # A path that was too long put it in /tmp.
    far = described(folder, "socket_dir")
    if far and far.parent == Path("/tmp") and far.name.startswith("pgdyno-"):
        remove_own_folder(far)
    remove_own_folder(folder)
    done = f"removed the server of a crashed run in {folder}"
    left = f"could not remove all of the server of a crashed run in {folder}"
    return [*released, left if folder.exists() else done]
