"""The saved state of a server, and its restoration before each measurement.

What is restored is compared with what was saved: the pages of the load's tables by a digest over
their files while the server is stopped, the rows by counting them once it runs.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from pgdyno.conduct import Session, rows_of
from pgdyno.disk import sync_mount
from pgdyno.errors import RunError, SetupError
from pgdyno.server import Cluster
from pgdyno.server.local.clean_copy import CleanCopy
from pgdyno.server.local.safefiles import (
    as_server_account_in,
    directory_bytes,
    open_plain,
)
from pgdyno.server.sql_files import query

_FILE = re.compile(r"([0-9]+)(_[a-z]+)?(\.[0-9]+)?")
"""A file of a relation: its number, a fork, a segment."""
_READERS = 2
_SPARE_BYTES = 64 << 20


class Pages(Struct, frozen=True):
    """The files of the load's tables."""

    files: int
    sha256: str


class Restored(Struct, frozen=True):
    """A state that was restored."""

    rows: dict[str, int]
    pages: Pages
    restore_s: float
    ready_s: float


class SavedState:
    """A copy of the data of the session's server, from which it can be started again."""

    def __init__(self, session: Session) -> None:
        """Stop the server, copy its data and start it again. Raises SetupError."""
        assert session.target.cluster is not None, "a server of pgdyno's own"
        self._session = session
        self._cluster: Cluster = session.target.cluster
        disks = session.target.disks
        own = self._cluster.directory / "branches"
        self._copy = CleanCopy(self._cluster, (disks and disks.copies) or own)
        self.rows = rows_of(session.target.conninfo)
        self._relations = _relations(session)
        with session.offline("server stopped by pgdyno to save its state"):
            self.bytes = self._check_space()
            began_s = time.monotonic()
            self._copy.take()
            self.save_s = time.monotonic() - began_s
            self.clones = self._copy.clones
            self.pages = self._pages()

    def restore(self) -> Restored:
        """Replace the server's data by the copy, and start it. Raises RunError if they differ."""
        began_s = time.monotonic()
        with self._session.offline("state restored by pgdyno", restored=True):
            stopped_s = time.monotonic()
            self._copy.restore()
            # Otherwise it would be written while the load is measured.
            sync_mount(self._cluster.data_dir)
            restore_s = time.monotonic() - stopped_s
            pages = self._pages()
            digest_s = time.monotonic() - stopped_s - restore_s
            _require_same("pages", pages, self.pages)
        ready_s = time.monotonic() - began_s - digest_s
        rows = rows_of(self._session.target.conninfo)
        _require_same("rows", rows, self.rows)
        return Restored(rows, pages, restore_s, ready_s)

    def _pages(self) -> Pages:
        """Return the digest of the files of the load's tables; no server runs now."""
        files = sorted(_files_of(self._cluster.data_dir, self._relations))
        with ThreadPoolExecutor(_READERS) as readers:
            digests = list(readers.map(_digest, files))
        whole = hashlib.sha256()
        for path, digest in zip(files, digests, strict=True):
            name = path.relative_to(self._cluster.data_dir)
            whole.update(f"{name} {digest}\n".encode())
        return Pages(len(files), whole.hexdigest())

    def _check_space(self) -> int:
        """Return the size of the data; raise SetupError if they do not fit twice: a copy needs it,
        and so does a clone once a branch has written every page."""
        directories = [self._cluster.data_dir, self._cluster.separate_wal_dir]
        size = sum(directory_bytes(each) for each in directories if each is not None)
        free = shutil.disk_usage(self._cluster.data_dir).free
        if free < size + _SPARE_BYTES:
            raise SetupError(
                f"the data have {size >> 20:,} MB, and a branch may write all of them again, but"
                f" the disk has {free >> 20:,} MB free",
                code="branch-space",
                hint="use a smaller scale or a larger disk (disk.data), or set PGDYNO_HOME to a"
                " directory with more space",
            )
        return size


def _require_same(what: str, restored: object, saved: object) -> None:
    if restored != saved:
        raise RunError(
            f"the {what} that were restored differ from those of the saved state",
            code="branch-state",
            hint="check the disk and the kernel's log",
        )


def _relations(session: Session) -> list[str]:
    with session.connect() as conn:
        paths = [str(path) for (path,) in conn.execute(query("scenario", "relation_files"))]
    if outside := [path for path in paths if path.startswith("pg_tblspc/")]:
        raise SetupError(
            f"{len(outside)} tables or indexes are in a tablespace, which is outside the data"
            " directory and would be shared by all branches",
            code="branch-tablespace",
            hint="make them without a tablespace",
        )
    return paths


def _files_of(data_dir: Path, relations: Collection[str]) -> Iterator[Path]:
    """Yield the segments and forks of relations."""
    wanted = set(relations)
    for parent in {Path(relation).parent for relation in relations}:
        with as_server_account_in(data_dir):
            names = [path.name for path in (data_dir / parent).iterdir()]
        for name in names:
            found = _FILE.fullmatch(name)
            if found and str(parent / found[1]) in wanted:
                yield data_dir / parent / name


def _digest(path: Path) -> str:
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
