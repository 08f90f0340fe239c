"""A copy of a stopped cluster's data, to go back to after a cut that damaged it."""

from __future__ import annotations

from pathlib import Path

from pgdyno.server import Cluster
from pgdyno.server.directories import shared_directory
from pgdyno.server.local.safefiles import copy_tree, remove_directory


class Pristine:
    """The data directory, and the WAL where it lies elsewhere, as they were when all was well.

    Blocks are shared with the copy where the file system can.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._places: dict[str, Path] = {}

    def keep(self) -> None:
        """Copy the stopped cluster's data; a link to WAL that lies elsewhere as a link."""
        shared_directory(self._folder)
        self._places = {"data": self._cluster.data_dir}
        if (wal := self._cluster.separate_wal_dir) is not None:
            self._places["wal"] = wal
        for name, place in self._places.items():
            copy_tree(place, self._folder / name)

    def put_back(self) -> None:
        """Make the stopped cluster's data what it was, whatever is left of it."""
        for name, place in self._places.items():
            remove_directory(place)
            copy_tree(self._folder / name, place)
