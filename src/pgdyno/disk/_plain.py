"""A plain directory as a disk: in the cluster's directory, or in one that the user names.

A directory outside the cluster's would be left behind by a crash of pgdyno. Therefore its path is
first written to the cluster's directory, and the path of the cluster to the new directory. A sweep
removes it only if both match.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.account import can_enter, server_account
from pgdyno.server.local.safefiles import (
    make_directory,
    read_text,
    remove_directory,
    remove_empty_directory,
    write_own,
    write_text,
)
from pgdyno.spec.disk import DiskPlan

_NOTE = "elsewhere"
_OWNER = ".pgdyno"


class PlainDisk(Struct, frozen=True):
    """A directory on an existing file system."""

    path: Path
    directory: Path
    kind: Literal["plain"] = "plain"
    emulated: None = None

    def close(self) -> None:
        """Remove the directory."""
        remove_directory(self.path)
        if self.path != self.directory:
            (self.directory / _NOTE).unlink(missing_ok=True)


def open_plain(plan: DiskPlan, directory: Path) -> PlainDisk:
    """Make ``directory`` itself, or a new one in the directory that ``plan`` names."""
    if plan.path is None:
        shared_directory(directory.parent)
        make_directory(directory)
        return PlainDisk(directory, directory)
    shared_directory(directory)
    _check_usable(plan.path)
    path = plan.path / f"pgdyno-{os.getpid()}-{secrets.token_hex(3)}"
    write_own(directory / _NOTE, str(path))
    try:
        make_directory(path)
        write_text(path / _OWNER, str(directory))
    except SetupError as problem:
        raise SetupError(
            f"plain:{plan.path}: cannot make a directory there: {problem.message}",
            code="disk-directory",
            hint=problem.hint,
        ) from None
    return PlainDisk(path, directory)


def remove_elsewhere(cluster: Path) -> list[str]:
    """Remove the directories of its disks outside ``cluster``; return a sentence for each."""
    done = []
    for note in sorted(cluster.glob(f"disks/*/{_NOTE}")):
        path = Path(note.read_text())
        if read_text(path / _OWNER) == str(note.parent):
            remove_directory(path)
            done.append(f"removed {path} of a crashed run")
        else:
            remove_empty_directory(path)  # pgdyno was killed before it wrote the owner.
    return done


def _check_usable(path: Path) -> None:
    if not path.is_dir():
        problem = "is not a directory" if path.exists() else "there is no such directory"
        raise UsageError(f"plain:{path}: {problem}", code="disk-directory")
    account = server_account()
    if account is not None and not can_enter(path):
        raise UsageError(
            f"plain:{path}: PostgreSQL runs as user {account.name} here, who cannot access it",
            code="disk-directory",
            hint="chmod o+x it and the directories above it, or use another one",
        )
