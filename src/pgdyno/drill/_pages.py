"""The LSNs of the pages in a cluster's relation files, read without the server.

A page may be written only after the WAL up to its LSN is on disk. An LSN beyond the end of the WAL
shows that WAL was lost and the page was not. The server does not notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.errors import SetupError
from pgdyno.server import Cluster
from pgdyno.server.local.safefiles import as_server_account_in, open_plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHUNK_PAGES = 128
_SHOWN = 5
"""Maximum number of pages beyond the limit that are reported."""
_PAGE_LSN_HIGH, _PAGE_LSN_LOW = 0, 1
"""Position of the LSN in a page header, in words of four bytes."""
_RELATION_FILE = re.compile(r"\d+(_(fsm|vm|init))?(\.\d+)?")
"""Name of a file of a relation that is not temporary (those are named like t3_16384)."""


class PageBeyond(Struct, frozen=True):
    """A page whose LSN is beyond the limit."""

    path: Path
    """Path of the file, relative to the data directory."""
    block: int
    """Block number within the file."""
    lsn: int


class PageScan(Struct, frozen=True):
    """The result of a scan over all pages."""

    files: int
    pages: int
    highest_lsn: int
    beyond: int
    """Number of pages beyond the limit."""
    first_beyond: tuple[PageBeyond, ...]
    """The first few of them."""


def relation_files(data_dir: Path) -> list[Path]:
    """Return all files with pages of relations, including free space and visibility maps."""
    with as_server_account_in(data_dir):
        return list(_relation_files(data_dir))


def _relation_files(data_dir: Path) -> Iterator[Path]:
    directories = [data_dir / "global", *sorted((data_dir / "base").glob("*"))]
    directories += sorted((data_dir / "pg_tblspc").glob("*/PG_*/*"))
    for directory in directories:
        if directory.is_dir():
            files = sorted(directory.iterdir())
            yield from (path for path in files if _RELATION_FILE.fullmatch(path.name))


def scan_pages(cluster: Cluster, limit_lsn: int) -> PageScan:
    """Read all pages and count those whose LSN is beyond ``limit_lsn``.

    The server may run: a file that is removed meanwhile is skipped. Raises SetupError when a file
    cannot be read.
    """
    page_bytes = cluster.control_data().page_bytes
    files = pages = highest = beyond = 0
    first: list[PageBeyond] = []
    buffer = bytearray(_CHUNK_PAGES * page_bytes)
    for path in relation_files(cluster.data_dir):
        files += 1
        for start, lsns in _page_lsns(path, buffer, page_bytes):
            pages += len(lsns)
            highest = max(highest, int(lsns.max()))
            found = (lsns > limit_lsn).nonzero()[0]
            beyond += len(found)
            for index in found[: _SHOWN - len(first)]:
                relative = path.relative_to(cluster.data_dir)
                first.append(PageBeyond(relative, start + int(index), int(lsns[index])))
    return PageScan(files, pages, highest, beyond, tuple(first))


def newest_page_lsn(cluster: Cluster) -> int:
    """Return the highest LSN in the pages of a cluster that is down."""
    return scan_pages(cluster, (1 << 64) - 1).highest_lsn


def _page_lsns(
    path: Path, buffer: bytearray, page_bytes: int
) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Yield parts of a file: the first page, and the LSNs of the pages; 0 for a new page."""
    import numpy as np

    words = np.frombuffer(buffer, dtype="=u4").reshape(-1, page_bytes // 4)
    start = 0
    try:
        with open_plain(path) as file:
            while whole := (file.readinto(buffer) or 0) // page_bytes:
                high = words[:whole, _PAGE_LSN_HIGH].astype(np.uint64)
                yield start, (high << np.uint64(32)) | words[:whole, _PAGE_LSN_LOW]
                start += whole
    except FileNotFoundError:
        return
    except OSError as error:
        raise SetupError(
            f"cannot read {path}: {error.strerror}", code="relation-unreadable"
        ) from error
