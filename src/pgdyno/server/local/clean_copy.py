"""A copy of a stopped cluster's data, to restore: after a cut that damaged it, or for a branch."""

from __future__ import annotations

from pathlib import Path

from pgdyno.server.directories import shared_directory
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.local.safefiles import can_clone, copy_tree, remove_directory


class CleanCopy:
    """A copy of the undamaged data directory, and of the WAL if it is stored elsewhere.

    Blocks are shared with the original where the file system can.
    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self._originals: dict[str, Path] = {}

    def take(self) -> None:
        """Copy the stopped cluster's data; a link to WAL stored elsewhere is copied as a link."""
        shared_directory(self._directory)
        self._originals = {"data": self._cluster.data_dir}
        if (wal := self._cluster.separate_wal_dir) is not None:
            self._originals["wal"] = wal
        for name, original in self._originals.items():
            copy_tree(original, self._directory / name)

    @property
    def clones(self) -> bool:
        """True if the copy and the data restored from it share their blocks."""
        return all(can_clone(original, self._directory) for original in self._originals.values())

    def restore(self) -> None:
        """Replace the stopped cluster's data with the copy."""
        for name, original in self._originals.items():
            remove_directory(original)
            copy_tree(self._directory / name, original)
