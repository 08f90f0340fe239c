"""The pages of a cluster's relation files, read beside the server: their LSNs.

A page's LSN says up to where the WAL must be on disk before the page may be. One that lies beyond
the end of the WAL speaks of changes that the WAL no longer knows: WAL was lost, and pages were not.
The server does not notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import SetupError
from pgdyno.server import Cluster
from pgdyno.server.local.safefiles import as_server_account_in, open_plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CHUNK_PAGES = 128
_SHOWN = 5
"""How many pages beyond the limit are named."""
_PAGE_LSN_HIGH, _PAGE_LSN_LOW = 0, 1
"""Of a page's header, in words of four bytes."""
_RELATION_FILE = re.compile(r"\d+(_(fsm|vm|init))?(\.\d+)?")
"""Not temporary ones, which are called t3_16384."""


@dataclass(frozen=True)
class PageBeyond:
    """A page whose LSN is beyond the limit."""

    path: Path
    """Of the file, below the data directory."""
    block: int
    """Within the file."""
    lsn: int


@dataclass(frozen=True)
class PagesSeen:
    """What a scan over all pages saw."""

    files: int
    pages: int
    highest_lsn: int
    beyond: int
    """Pages beyond the limit."""
    first_beyond: tuple[PageBeyond, ...]
    """The first few of them."""


def relation_files(data_dir: Path) -> list[Path]:
    """Every file that holds a relation's pages, its free space and visibility maps too."""
    with as_server_account_in(data_dir):
        return list(_relation_files(data_dir))


def _relation_files(data_dir: Path) -> Iterator[Path]:
    folders = [data_dir / "global", *sorted((data_dir / "base").glob("*"))]
    folders += sorted((data_dir / "pg_tblspc").glob("*/PG_*/*"))
    for folder in folders:
        if folder.is_dir():
            files = sorted(folder.iterdir())
            yield from (path for path in files if _RELATION_FILE.fullmatch(path.name))


def scan_pages(cluster: Cluster, limit_lsn: int) -> PagesSeen:
    """Read all pages and count those whose LSN is beyond ``limit_lsn``.

    The server may run: a file that goes away meanwhile is left out. Raises SetupError when one
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
                place = path.relative_to(cluster.data_dir)
                first.append(PageBeyond(place, start + int(index), int(lsns[index])))
    return PagesSeen(files, pages, highest, beyond, tuple(first))


def newest_page_lsn(cluster: Cluster) -> int:
    """The highest LSN in the pages of a cluster that is down."""
    return scan_pages(cluster, (1 << 64) - 1).highest_lsn


def _page_lsns(
    path: Path, buffer: bytearray, page_bytes: int
) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Stretches of a file: their first page, and the LSNs of their pages; 0 for a new page."""
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
