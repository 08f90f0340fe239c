"""Full-page images in the WAL: smaller, or none.

Without them a page that was torn by a power cut cannot be repaired; see PostgreSQL's documentation
of full_page_writes. Corruption without any error is possible when data checksums are off.
"""

from __future__ import annotations

from pgdyno.remedy.remedy import Remedy

REMEDIES = (
    Remedy(
        id="wal-compression",
        summary="compress full-page images in the WAL",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price="CPU time in the session that writes the image, and in crash recovery",
        settings=("wal_compression",),
    ),
    Remedy(
        id="full-page-writes-off",
        summary="write no full-page images",
        kind="reload",
        durability_class="D2",
        bound=(
            "a power cut may leave torn pages: data lost or corrupt, possibly without an error;"
            " loses nothing (D0) only where the storage writes 8 kB pages atomically"
        ),
        price="base backups are not affected: they turn it on for as long as they last",
        settings=("full_page_writes",),
    ),
)
