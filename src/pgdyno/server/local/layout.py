"""Where the parts of a cluster lie, and how its data directory comes to be.

A cluster is a directory::

    cluster.json     what it is: version, programs, where its socket and its data directory lie
    lock             held by the owning pgdyno for as long as it lives
    postgresql.conf  settings, pg_hba.conf beside it: outside the data directory, so that a drill
                     which loses unflushed writes does not lose these
    data/            the data directory (mode 0700, owned by the account that runs the server),
                     unless it has a disk of its own: then that disk's pgdata/ is the data directory
    disks/ROLE/      what the disk of ROLE (data, wal) needs: its mount point, its image
    socket/          the Unix socket (mode 0700 likewise)
    server.log       what the server says

With a disk of its own the WAL is that disk's ``pg_wal/``, and the data directory has a link there.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.directories import clusters_dir, shared_directory
from pgdyno.server.local._installation import Installation
from pgdyno.server.local._template import clone_data_directory
from pgdyno.server.local._wal_directory import copy_linked_wal, place_wal
from pgdyno.server.local.account import give, give_tree, require_reach, run_as, server_account
from pgdyno.server.local.controldata import control_data
from pgdyno.server.local.leftovers import end_leftovers
from pgdyno.server.local.safefiles import (
    copy_tree,
    make_directory,
    read_text,
    remove_own_directory,
    working_in,
    write_own,
)
from pgdyno.server.locks import locked, try_lock

_SOCKET_PATH_BYTES_MAX = 107  # sun_path on Linux, without its final zero byte


class DiskDirectories(Protocol):
    """Where the files of a cluster go; ``None`` means into its own directory."""

    @property
    def data(self) -> Path | None:
        """A directory for the data directory, which becomes its ``pgdata``."""

    @property
    def wal(self) -> Path | None:
        """A directory for the WAL, which becomes its ``pg_wal``, linked from the data directory."""

    def close(self) -> None:
        """Give back what holds the places. The server has ended; the files may go."""


Disks = Callable[[Path], DiskDirectories]
"""Makes the places for the cluster in a directory, below that directory."""


class OwnDirectory:
    """The places of a cluster that has no disks: all in its directory."""

    data: Path | None = None
    wal: Path | None = None

    def close(self) -> None:
        """Nothing to give back."""


def claim_directory(keep_dir: Path | None) -> tuple[Path, int]:
    """The directory and the descriptor of its held lock."""
    home = clusters_dir()
    directory = keep_dir.absolute() if keep_dir else home / f"{os.getpid()}-{secrets.token_hex(3)}"
    # A sweep holds this lock too, so it never sees a directory whose lock is not yet held.
    with locked(home / ".lock"):
        try:
            shared_directory(directory)
            lock = try_lock(directory / "lock")
            require_reach(directory)
        except BaseException:  # Ctrl-C too: nobody else knows of the directory yet.
            if keep_dir is None:
                remove_own_directory(directory)
            raise
    if lock is None:
        raise UsageError(
            f"another pgdyno is using the cluster in {directory}", code="cluster-in-use"
        )
    return directory, lock


def check_kept_cluster(directory: Path, *, disks: bool, source: Path | None) -> None:
    """Refuse what a kept cluster in ``directory`` cannot have."""
    if disks or (source is not None and (directory / "data").exists()):
        raise UsageError(
            f"the cluster in {directory} is kept: it cannot get disks or another data directory",
            code="kept-cluster",
        )


def fill(
    installation: Installation,
    directory: Path,
    places: DiskDirectories,
    *,
    checksums: bool | None,
    source: Path | None,
) -> Path:
    """Make the data directory where it belongs, or take up the one that is there; its path."""
    data_dir = directory / "data" if places.data is None else places.data / "pgdata"
    if data_dir.exists():
        give_tree(data_dir, server_account())
        _check_version(installation, data_dir)
        end_leftovers(data_dir)
    elif source is None:
        clone_data_directory(installation, data_dir)
    else:
        _check_version(installation, source)
        _copy_data_directory(source, data_dir)
    with working_in(data_dir):
        data_dir.chmod(0o700)
    place_wal(data_dir, places.wal)
    if checksums is not None:
        set_checksums(installation, data_dir, wanted=checksums)
    return data_dir


def describe(
    directory: Path, installation: Installation, data_dir: Path, socket_dir: Path, *, keep: bool
) -> None:
    """Write down what a later pgdyno needs to know to clear the cluster away."""
    description = {
        "version": installation.version,
        "bindir": str(installation.bindir),
        "data_dir": str(data_dir),
        "socket_dir": str(socket_dir),
        "keep": keep,
    }
    write_own(directory / "cluster.json", json.dumps(description))


def described(directory: Path, name: str) -> Path | None:
    """A path from the description of the cluster in ``directory``, if it got that far."""
    try:
        return Path(json.loads((directory / "cluster.json").read_text())[name])
    except (OSError, ValueError, KeyError):
        return None


def make_socket_dir(directory: Path) -> Path:
    """A directory that only the server's account and root can enter, with a short enough path."""
    socket_dir = directory / "socket"
    if len(os.fsencode(socket_dir / ".s.PGSQL.65535.lock")) > _SOCKET_PATH_BYTES_MAX:
        return _short_socket_dir()
    remove_own_directory(socket_dir)
    make_directory(socket_dir)
    return socket_dir


def _short_socket_dir() -> Path:
    """Where the path of the cluster is too long for a socket."""
    try:
        socket_dir = Path(tempfile.mkdtemp(prefix="pgdyno-", dir="/tmp"))
    except OSError as problem:
        raise SetupError(
            f"cannot make a directory in /tmp: {problem.strerror}", code="state-directory"
        ) from None
    give(socket_dir, server_account())
    return socket_dir


def _check_version(installation: Installation, data_dir: Path) -> None:
    """UsageError unless ``data_dir`` is of the installation's major version."""
    text = read_text(data_dir / "PG_VERSION")
    if text is None:
        raise UsageError(
            f"{data_dir} is not a data directory: its PG_VERSION cannot be read",
            code="data-directory",
        )
    major = text.strip()[:20]
    if major != str(installation.major):
        raise UsageError(
            f"{data_dir} belongs to PostgreSQL {major}, not {installation.major}",
            code="pg-version",
            hint="choose matching binaries with --pg-bindir, or another directory",
        )


def _copy_data_directory(source: Path, target: Path) -> None:
    """A copy that shares nothing with ``source``: what ``source`` only links to is copied too."""
    with working_in(source):
        tablespaces = any((source / "pg_tblspc").iterdir())
    if tablespaces:
        raise SetupError(
            f"{source} has tablespaces, which are outside it and would be shared with its copy",
            code="tablespaces",
        )
    copy_tree(source, target)
    with working_in(target):
        (target / "postmaster.pid").unlink(missing_ok=True)
    copy_linked_wal(target)


def set_checksums(installation: Installation, data_dir: Path, *, wanted: bool) -> None:
    """Turn data checksums on or off in a data directory that no server uses."""
    if control_data(installation, data_dir).checksums == wanted:
        return
    switch = "--enable" if wanted else "--disable"
    program = installation.binary("pg_checksums")
    done = run_as(server_account(), [program, switch, "--no-sync", "-D", data_dir])
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise SetupError(
            f"cannot turn data checksums {'on' if wanted else 'off'}: {said}",
            code="checksums",
        )
