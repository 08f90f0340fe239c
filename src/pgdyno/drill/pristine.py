"""A copy of a stopped cluster's data, to go back to after a cut that damaged it."""

from __future__ import annotations

import shutil
from pathlib import Path

from pgdyno.server import Cluster
from pgdyno.server.template import copy_tree


class Pristine:
    """The data directory, and the WAL where it lies elsewhere, as they were when all was well.

    Blocks are shared with the copy where the file system can.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    def keep(self) -> None:
        """Copy the stopped cluster's data."""
        self._folder.mkdir()
        for name, place in self._places().items():
            copy_tree(place, self._folder / name)

    def put_back(self) -> None:
        """Make the stopped cluster's data what it was."""
        for name, place in self._places().items():
            shutil.rmtree(place)
            copy_tree(self._folder / name, place)

    def _places(self) -> dict[str, Path]:
        """A link to WAL that lies elsewhere is copied as a link."""
        places = {"data": self._cluster.data_dir}
        if (wal := self._cluster.data_dir / "pg_wal").is_symlink():
            places["wal"] = wal.readlink()
        return places
