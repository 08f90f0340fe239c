"""The layout of a cluster's directory, and the creation of its data directory.

A cluster is a directory::

    cluster.json     version, binaries, paths of the socket and the data directory
    lock             held by the owning pgdyno as long as it lives
    postgresql.conf  settings; with pg_hba.conf, outside the data directory, so that a drill that
                     loses unflushed writes does not lose them
    data/            the data directory (mode 0700, owned by the account that runs the server),
                     unless it has its own disk: then that disk's pgdata/ is the data directory
    data-N/          those of further versions that take turns with it (pgdata-N/ on a disk)
    disks/ROLE/      mount point and image of the disk for ROLE (data, wal)
    socket/          the Unix socket (mode 0700, same owner)
    server.log       the server's log
    beginning        in a directory that is kept: nothing was measured there yet

If the WAL has its own disk, it is that disk's ``pg_wal/``, and the data directory links to it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.directories import clusters_dir, shared_directory
from pgdyno.server.local._installation import Installation
from pgdyno.server.local._template import clone_data_directory
from pgdyno.server.local._wal_directory import (
    copy_linked_wal,
    real_wal_dir,
    use_wal_parent,
)
from pgdyno.server.local.account import (
    change_owner,
    change_tree_owner,
    require_reach,
    run_as,
    server_account,
)
from pgdyno.server.local.controldata import control_data
from pgdyno.server.local.leftovers import end_helpers, end_leftovers
from pgdyno.server.local.safefiles import (
    as_server_account_in,
    can_clone,
    copy_tree,
    directory_bytes,
    make_directory,
    read_text,
    remove_own_directory,
    write_own,
)
from pgdyno.server.locks import locked, try_lock

_BEGINNING = "beginning"
_FILES = ("cluster.json", "lock", "postgresql.conf", "pg_hba.conf", "server.log")
_SPARE_BYTES = 64 << 20
_SOCKET_PATH_BYTES_MAX = 107  # sun_path on Linux, without its final zero byte


class DiskDirectories(Protocol):
    """Directories for the files of a cluster; ``None`` stands for the cluster's own directory."""

    @property
    def data(self) -> Path | None:
        """The directory in which ``pgdata`` becomes the data directory."""

    @property
    def wal(self) -> Path | None:
        """The directory in which ``pg_wal``, linked from the data directory, contains the WAL."""

    def close(self) -> None:
        """Release the disks. The server has ended; the files may be removed."""


Disks = Callable[[Path], DiskDirectories]
"""Creates the disk directories below a cluster's directory."""


class OwnDirectory:
    """The directories of a cluster without disks: everything is in its own directory."""

    data: Path | None = None
    wal: Path | None = None

    def close(self) -> None:
        """Do nothing."""


def claim_directory(keep_dir: Path | None) -> tuple[Path, int]:
    """Create and lock a cluster's directory; return its path and the lock's descriptor."""
    home = clusters_dir()
    directory = keep_dir.absolute() if keep_dir else home / f"{os.getpid()}-{secrets.token_hex(3)}"
    # A sweep holds this lock too, so it never sees a directory that is not yet locked.
    with locked(home / ".lock"):
        try:
            refuse_link(directory)
            shared_directory(directory)
            refuse_link(directory)  # Another account can replace it no longer: it is ours.
            lock = try_lock(directory / "lock")
            require_reach(directory)
        except BaseException:  # Also on Ctrl-C: nothing else knows the directory yet.
            if keep_dir is None:
                remove_own_directory(directory)
            raise
    if lock is None:
        raise UsageError(
            f"another pgdyno is using the cluster in {directory}", code="cluster-in-use"
        )
    return directory, lock


def refuse_link(directory: Path) -> None:
    """Raise SetupError for a link, which may be another account's and lead anywhere."""
    if directory.is_symlink():
        raise SetupError(
            f"{directory} is a symbolic link, which is not followed",
            code="linked-directory",
            hint="remove the link, or name the place that it leads to",
        )


def has_kept_data(directory: Path) -> bool:
    """Return whether there are data in ``directory`` that are kept."""
    return (directory / "data").exists() and not _is_beginning(directory)


def _is_beginning(directory: Path) -> bool:
    """Return whether all that is in the cluster of ``directory`` is the start of one to keep."""
    try:
        status = (directory / _BEGINNING).lstat()
        owner = directory.lstat().st_uid
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == owner == os.geteuid()


def mark_beginning(directory: Path) -> None:
    """Mark a cluster without a data directory as one of which nothing is to be kept yet; the start
    of an earlier one is removed. Its lock is held."""
    data_dir = directory / "data"
    if _is_beginning(directory):
        end_helpers(directory)  # A copy of the template outlives the pgdyno that began it.
        end_leftovers(data_dir)
        remove_own_directory(data_dir)
    if not data_dir.exists():
        write_own(directory / _BEGINNING, "")


def keep_from_now_on(directory: Path) -> None:
    """Remove the mark of a beginning."""
    if _is_beginning(directory):
        (directory / _BEGINNING).unlink()


def remove_beginning(directory: Path) -> None:
    """Remove the start of a cluster, and its directory unless it has files of others."""
    if not _is_beginning(directory):
        return
    for name in ("data", "socket"):
        remove_own_directory(directory / name)
    if (directory / "data").exists():
        return
    for name in (*_FILES, _BEGINNING):
        (directory / name).unlink(missing_ok=True)
    with suppress(OSError):
        directory.rmdir()


def check_kept_cluster(directory: Path, *, disks: bool, source: Path | None) -> None:
    """Raise UsageError for options that a kept cluster in ``directory`` cannot have."""
    if disks or (source is not None and (directory / "data").exists()):
        raise UsageError(
            f"the cluster in {directory} is kept: it cannot get disks or another data directory",
            code="kept-cluster",
        )


def prepare_data_directory(
    installation: Installation,
    directory: Path,
    disk_directories: DiskDirectories,
    *,
    checksums: bool | None,
    source: Path | None,
    number: int = 1,
) -> Path:
    """Create the data directory, or use an existing one; return its path. A cluster may have
    several, each with its ``number``."""
    parent = disk_directories.data
    suffix = "" if number == 1 else f"-{number}"
    data_dir = directory / f"data{suffix}" if parent is None else parent / f"pgdata{suffix}"
    is_new = not data_dir.exists() and source is None
    if data_dir.exists():
        change_tree_owner(data_dir, server_account())
        _check_version(installation, data_dir)
        end_leftovers(data_dir)
    elif source is None:
        clone_data_directory(installation, data_dir, checksums=checksums)
    else:
        _check_version(installation, source)
        copy_data_directory(source, data_dir)
    with as_server_account_in(data_dir):
        data_dir.chmod(0o700)
    use_wal_parent(data_dir, disk_directories.wal)
    if checksums is not None and not is_new:
        set_checksums(installation, data_dir, wanted=checksums)
    return data_dir


def write_description(
    directory: Path, installation: Installation, data_dir: Path, socket_dir: Path, *, keep: bool
) -> None:
    """Write cluster.json, from which a later sweep removes the cluster."""
    description = {
        "version": installation.version,
        "bindir": str(installation.bindir),
        "data_dir": str(data_dir),
        "socket_dir": str(socket_dir),
        "keep": keep,
    }
    describe(directory, description)


def describe(directory: Path, description: Mapping[str, object]) -> None:
    """Write cluster.json: facts that a sweep needs in addition to the directory."""
    write_own(directory / "cluster.json", json.dumps(description))


def described_path(directory: Path, name: str) -> Path | None:
    """Return a path from cluster.json in ``directory``; ``None`` if it is missing or damaged."""
    try:
        return Path(json.loads((directory / "cluster.json").read_text())[name])
    except (OSError, ValueError, KeyError):
        return None


def make_socket_dir(directory: Path) -> Path:
    """Create a socket directory for the server's account, with a short enough path."""
    socket_dir = directory / "socket"
    if len(os.fsencode(socket_dir / ".s.PGSQL.65535.lock")) > _SOCKET_PATH_BYTES_MAX:
        return _short_socket_dir()
    remove_own_directory(socket_dir)
    make_directory(socket_dir)
    return socket_dir


def _short_socket_dir() -> Path:
    """Create a socket directory in /tmp, for a cluster whose path is too long for a socket."""
    try:
        socket_dir = Path(tempfile.mkdtemp(prefix="pgdyno-", dir="/tmp"))
    except OSError as problem:
        raise SetupError(
            f"cannot make a directory in /tmp: {problem.strerror}", code="state-directory"
        ) from None
    change_owner(socket_dir, server_account())
    return socket_dir


def _check_version(installation: Installation, data_dir: Path) -> None:
    """Raise UsageError unless ``data_dir`` has the installation's major version."""
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


def copy_data_directory(source: Path, target: Path) -> None:
    """Copy ``source`` completely: WAL that it only links to is copied too.

    Raises SetupError where that cannot be, or would not fit, before anything is copied.
    """
    with as_server_account_in(source):
        tablespaces = any((source / "pg_tblspc").iterdir())
    if tablespaces:
        raise SetupError(
            f"{source} has tablespaces, which are outside it and would be shared with its copy",
            code="tablespaces",
            hint="make tables and indexes without a tablespace",
        )
    _check_copy_space(source, target.parent)
    copy_tree(source, target)
    with as_server_account_in(target):
        (target / "postmaster.pid").unlink(missing_ok=True)
    copy_linked_wal(target)


def _check_copy_space(source: Path, parent: Path) -> None:
    """Raise SetupError if a copy of ``source`` does not fit; a clone shares its blocks."""
    needed = _SPARE_BYTES
    if not can_clone(source, parent):
        needed += directory_bytes(source)
        wal = real_wal_dir(source)
        needed += 0 if wal.is_relative_to(source.resolve()) else directory_bytes(wal)
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise SetupError(
            f"a copy of {source} needs {needed >> 20:,} MB, and the disk of {parent} has"
            f" {free >> 20:,} MB free",
            code="copy-space",
            hint="free some space, use a larger disk (disk.data) for a server that starts, or set"
            " PGDYNO_HOME to a directory with more space",
            place=parent,
        )


def set_checksums(installation: Installation, data_dir: Path, *, wanted: bool) -> None:
    """Turn data checksums on or off in a data directory that no server uses."""
    if control_data(installation, data_dir).checksums == wanted:
        return
    switch = "--enable" if wanted else "--disable"
    pg_checksums = installation.program("pg_checksums")
    done = run_as(server_account(), [pg_checksums, switch, "--no-sync", "-D", data_dir])
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise SetupError(
            f"cannot turn data checksums {'on' if wanted else 'off'}: {reason}",
            code="checksums",
        )
