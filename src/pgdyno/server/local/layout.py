"""Where the parts of a cluster lie, and how its data directory comes to be.

A cluster is a folder::

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
from pgdyno.server.directories import clusters_dir, shared_folder
from pgdyno.server.local._installation import Installation
from pgdyno.server.local._template import clone_data_directory
from pgdyno.server.local._waldir import copy_linked_wal, place_wal
from pgdyno.server.local.account import give, give_tree, require_reach, run_as, server_account
from pgdyno.server.local.controldata import control_data
from pgdyno.server.local.leftovers import end_leftovers
from pgdyno.server.local.safefiles import (
    copy_tree,
    make_folder,
    read_text,
    remove_own_folder,
    working_in,
    write_own,
)
from pgdyno.server.locks import locked, try_lock

_SOCKET_PATH_BYTES_MAX = 107  # sun_path on Linux, without its final zero byte


class Places(Protocol):
    """Where the files of a cluster go; ``None`` means into its own folder."""

    @property
    def data(self) -> Path | None:
        """A folder for the data directory, which becomes its ``pgdata``."""

    @property
    def wal(self) -> Path | None:
        """A folder for the WAL, which becomes its ``pg_wal``, linked from the data directory."""

    def close(self) -> None:
        """Give back what holds the places. The server has ended; the files may go."""


Disks = Callable[[Path], Places]
"""Makes the places for the cluster in a folder, below that folder."""


class OwnFolder:
    """The places of a cluster that has no disks: all in its folder."""

    data: Path | None = None
    wal: Path | None = None

    def close(self) -> None:
        """Nothing to give back."""


def claim_folder(keep_dir: Path | None) -> tuple[Path, int]:
    """The folder and the descriptor of its held lock."""
    home = clusters_dir()
    folder = keep_dir.absolute() if keep_dir else home / f"{os.getpid()}-{secrets.token_hex(3)}"
    # A sweep holds this lock too, so it never sees a folder whose lock is not yet held.
    with locked(home / ".lock"):
        try:
            shared_folder(folder)
            lock = try_lock(folder / "lock")
            require_reach(folder)
        except BaseException:  # Ctrl-C too: nobody else knows of the folder yet.
            if keep_dir is None:
                remove_own_folder(folder)
            raise
    if lock is None:
        raise UsageError(f"another pgdyno is using the cluster in {folder}", code="cluster-in-use")
    return folder, lock


def check_keeping(folder: Path, *, disks: bool, source: Path | None) -> None:
    """Refuse what a kept cluster in ``folder`` cannot have."""
    if disks or (source is not None and (folder / "data").exists()):
        raise UsageError(
            f"the cluster in {folder} is kept: it cannot get disks or another data directory",
            code="kept-cluster",
        )


def fill(
    installation: Installation,
    folder: Path,
    places: Places,
    *,
    checksums: bool | None,
    source: Path | None,
) -> Path:
    """Make the data directory where it belongs, or take up the one that is there; its path."""
    data_dir = folder / "data" if places.data is None else places.data / "pgdata"
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
    folder: Path, installation: Installation, data_dir: Path, socket_dir: Path, *, keep: bool
) -> None:
    """Write down what a later pgdyno needs to know to clear the cluster away."""
    description = {
        "version": installation.version,
        "bindir": str(installation.bindir),
        "data_dir": str(data_dir),
        "socket_dir": str(socket_dir),
        "keep": keep,
    }
    write_own(folder / "cluster.json", json.dumps(description))


def described(folder: Path, name: str) -> Path | None:
    """A path from the description of the cluster in ``folder``, if it got that far."""
    try:
        return Path(json.loads((folder / "cluster.json").read_text())[name])
    except (OSError, ValueError, KeyError):
        return None


def make_socket_dir(folder: Path) -> Path:
    """A directory that only the server's account and root can enter, with a short enough path."""
    directory = folder / "socket"
    if len(os.fsencode(directory / ".s.PGSQL.65535.lock")) > _SOCKET_PATH_BYTES_MAX:
        return _far_socket_dir()
    remove_own_folder(directory)
    make_folder(directory)
    return directory


def _far_socket_dir() -> Path:
    """Where the path of the cluster is too long for a socket."""
    try:
        directory = Path(tempfile.mkdtemp(prefix="pgdyno-", dir="/tmp"))
    except OSError as problem:
        raise SetupError(
            f"cannot make a directory in /tmp: {problem.strerror}", code="state-directory"
        ) from None
    give(directory, server_account())
    return directory


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
    program = installation.program("pg_checksums")
    done = run_as(server_account(), [program, switch, "--no-sync", "-D", data_dir])
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise SetupError(
            f"cannot turn data checksums {'on' if wanted else 'off'}: {said}",
            code="checksums",
        )
