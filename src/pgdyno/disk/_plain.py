"""A plain folder as a disk: the cluster's own, or a fresh one in a folder that the user names.

What lies outside the cluster's folder would be left behind by a crash of pgdyno. So the cluster's
folder has a note of it, written first, and the fresh folder one that says whose it is; a sweep
removes only what both agree on.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgdyno.errors import SetupError, UsageError
from pgdyno.server.directories import shared_folder
from pgdyno.server.local.account import can_enter, server_account
from pgdyno.server.local.safefiles import (
    make_folder,
    read_text,
    remove_empty_folder,
    remove_folder,
    write_own,
    write_text,
)
from pgdyno.spec.disk import DiskPlan

_NOTE = "elsewhere"
_OWNER = ".pgdyno"


@dataclass(frozen=True)
class PlainDisk:
    """A folder on whichever file system it is on."""

    path: Path
    folder: Path
    kind: Literal["plain"] = "plain"
    emulated: None = None

    def close(self) -> None:
        """Remove the folder, wherever it is."""
        remove_folder(self.path)
        if self.path != self.folder:
            (self.folder / _NOTE).unlink(missing_ok=True)


def open_plain(plan: DiskPlan, folder: Path) -> PlainDisk:
    """The folder itself, or a fresh one in the folder that ``plan`` names."""
    if plan.path is None:
        shared_folder(folder.parent)
        make_folder(folder)
        return PlainDisk(folder, folder)
    shared_folder(folder)
    _check_usable(plan.path)
    path = plan.path / f"pgdyno-{os.getpid()}-{secrets.token_hex(3)}"
    write_own(folder / _NOTE, str(path))
    try:
        make_folder(path)
        write_text(path / _OWNER, str(folder))
    except SetupError as problem:
        raise SetupError(
            f"plain:{plan.path}: cannot make a folder there: {problem.message}",
            code="disk-folder",
            hint=problem.hint,
        ) from None
    return PlainDisk(path, folder)


def remove_elsewhere(cluster: Path) -> list[str]:
    """Remove the folders outside ``cluster`` that its disks had; a sentence for each."""
    done = []
    for note in sorted(cluster.glob(f"disks/*/{_NOTE}")):
        path = Path(note.read_text())
        if read_text(path / _OWNER) == str(note.parent):
            remove_folder(path)
            done.append(f"removed {path} of a crashed run")
        else:
            remove_empty_folder(path)  # pgdyno was killed before it wrote whose it is.
    return done


def _check_usable(path: Path) -> None:
    if not path.is_dir():
        problem = "is no folder" if path.exists() else "there is no such folder"
        raise UsageError(f"plain:{path}: {problem}", code="disk-folder")
    account = server_account()
    if account is not None and not can_enter(path):
        raise UsageError(
            f"plain:{path}: PostgreSQL runs as {account.name} here, who cannot enter that folder",
            code="disk-folder",
            hint="chmod o+x it and the folders above it, or name another one",
        )
