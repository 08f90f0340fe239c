"""The interface of a disk: its kind, its directory for files, and whether it is emulated."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pgdyno.spec.disk import DiskKind


class Disk(Protocol):
    """An open disk. The account that runs servers may write to ``path``."""

    @property
    def kind(self) -> DiskKind:
        """The requested kind."""

    @property
    def path(self) -> Path:
        """The directory on it for files."""

    @property
    def emulated(self) -> str | None:
        """A sentence to show with speeds measured on it; ``None`` for a real disk."""

    def close(self) -> None:
        """Remove the disk with its data. No process may use it any more."""
