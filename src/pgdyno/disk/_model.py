"""What a disk is to the rest of pgdyno: a kind, a folder for files, and whether it is emulated."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pgdyno.spec.disk import DiskKind


class Disk(Protocol):
    """An open disk. The account that runs servers may write to ``path``."""

    @property
    def kind(self) -> DiskKind:
        """What was asked for."""

    @property
    def path(self) -> Path:
        """The folder on it that files go to."""

    @property
    def emulated(self) -> str | None:
        """A sentence for whoever reads a speed that was measured on it; ``None``: a real one."""

    def close(self) -> None:
        """Give the disk back with all that is on it. No process may use it any more."""
