"""Removal of what crashed runs left: servers, directories, sockets, shared memory.

Only clusters of pgdyno without an owner are touched: a cluster is dead when its lock is free,
because the kernel releases it with the process that held it. ``settings/_leftovers.py`` restores
settings that crashed runs changed on other servers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.server.directories import clusters_dir, state_home
from pgdyno.server.local.layout import described_path
from pgdyno.server.local.leftovers import end_helpers, end_leftovers, helpers, server_processes
from pgdyno.server.local.safefiles import remove_own_directory
from pgdyno.server.locks import locked, try_lock

_OWNER_S_MAX = 10.0
"""Time for the kernel to free the lock of a process that was killed."""
_SERVER_S_MAX = 10.0
"""Time for its guardians to end its processes."""
_POLL_S = 0.05
Release = Callable[[Path], list[str]]
"""Releases the disks of the cluster in a directory; returns a sentence for each action."""


def sweep(release: Release) -> list[str]:
    """Remove servers and incomplete snapshots of crashed runs; return a sentence for each action or
    failure.

    ``release`` is called with the directory of each dead cluster, once its server has ended.
    """
    done = []
    home = clusters_dir()
    with locked(home / ".lock"):
        for directory in sorted(path for path in home.iterdir() if path.is_dir()):
            done += _sweep_if_dead(directory, release)
    if any((state_home() / "snapshots").glob(".*.part")):
        from pgdyno.server.local.snapshots import sweep_snapshots

        done += sweep_snapshots()
    return done


def sweep_one(directory: Path) -> None:
    """Remove the server, pooler or front end in ``directory``, without disks, whose pgdyno was
    killed just now."""
    if not ended_with_its_owner(directory):
        return
    with locked(directory.parent / ".lock"):
        if directory.exists():
            _sweep_if_dead(directory, lambda _: [])


def ended_with_its_owner(directory: Path) -> bool:
    """Wait until a killed pgdyno is gone, and for what it ran, which guardians end in better order
    than a sweep. False if a pgdyno has locked the cluster: that one removes it itself."""
    if not _owner_is_gone(directory):
        return False
    deadline_s = time.monotonic() + _SERVER_S_MAX
    while is_served(directory) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return True


def _owner_is_gone(directory: Path) -> bool:
    """Return whether no pgdyno has locked the cluster.

    The lock is not kept: a concurrent sweep does the same work, and both may run at once.
    """
    deadline_s = time.monotonic() + _OWNER_S_MAX
    while (directory / "lock").exists() and time.monotonic() < deadline_s:
        # Otherwise a sweep might find it locked by this process.
        with locked(directory.parent / ".lock"):
            lock = try_lock(directory / "lock")
            if lock is not None:
                os.close(lock)
        if lock is not None:
            return True
        time.sleep(_POLL_S)
    return False


def end_server(directory: Path) -> None:
    """End all processes of the dead cluster in ``directory``."""
    end_helpers(directory)
    end_leftovers(_data_dir(directory))


def is_served(directory: Path) -> bool:
    """True if processes of the cluster in ``directory`` run, including its guardian."""
    return bool(helpers(directory) or server_processes(_data_dir(directory)))


def _data_dir(directory: Path) -> Path:
    return described_path(directory, "data_dir") or directory / "data"


def _sweep_if_dead(directory: Path, release: Release) -> list[str]:
    lock = try_lock(directory / "lock")
    if lock is None:
        return []
    try:
        return _sweep_cluster(directory, release)
    except PgdynoError as error:
        return [f"{directory} of a crashed run cannot be removed yet: {error.message}"]
    finally:
        os.close(lock)


def _sweep_cluster(directory: Path, release: Release) -> list[str]:
    end_server(directory)
    released = release(directory)
    # It is in /tmp if the cluster's path was too long for a socket.
    socket_dir = described_path(directory, "socket_dir")
    if socket_dir and socket_dir.parent == Path("/tmp") and socket_dir.name.startswith("pgdyno-"):
        remove_own_directory(socket_dir)
    remove_own_directory(directory)
    done = f"removed the server of a crashed run in {directory}"
    left = f"could not remove all of the server of a crashed run in {directory}"
    return [*released, left if directory.exists() else done]
