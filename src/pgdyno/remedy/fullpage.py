"""Remedies for full-page images in the WAL: compress them, or omit them.

Without them a page torn by a power cut cannot be restored; see full_page_writes in PostgreSQL's
documentation. Without data checksums, corruption may cause no error.
"""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy, Risk
from pgdyno.remedy.circumstances import Circumstances

_TORN = "a power cut may leave torn pages, with data lost or corrupted"
_ATOMIC = "nothing is lost (D0) only if the storage writes 8 kB pages atomically"


def _no_images(server: Circumstances) -> bool:
    return not server.is_on("full_page_writes", default=True)


def _torn(case: Case) -> Risk:
    """Return the risk; checksums report a torn page when it is read but do not restore it."""
    detection = {
        True: "which data checksums report when the page is read",
        False: "without an error, as there are no data checksums",
        None: "possibly without an error",
    }[case.after.checksums]
    return Risk("D2", f"{_TORN}, {detection}; {_ATOMIC}")


REMEDIES = (
    Remedy(
        id="wal-compression",
        summary="compress full-page images in the WAL",
        kind="reload",
        durability_class="D0",
        price="CPU time in the session that writes the image, and in crash recovery",
        settings=("wal_compression",),
        when=lambda case: case.after.is_on("wal_compression", default=False),
        checkpoint_bound=True,
        cycles=1,
    ),
    Remedy(
        id="full-page-writes-off",
        summary="write no full-page images",
        kind="reload",
        durability_class="D2",
        bound=f"{_TORN}, possibly without an error; {_ATOMIC}",
        price="nothing else; base backups turn full-page images on while they run",
        settings=("full_page_writes",),
        when=lambda case: case.becomes(_no_images),
        risk=_torn,
        faults=("power",),
        checkpoint_bound=True,
        cycles=1,
    ),
    Remedy(
        id="checksums-off",
        summary="write pages without checksums",
        kind="layout",
        durability_class="D0",
        bound="nothing is lost; a page that the storage damages is read without an error",
        price="damage is detected late, or not at all",
        keys=("server.checksums",),
        when=lambda case: case.becomes(lambda server: server.checksums is False),
        manual_lines=("-- stop PostgreSQL, pg_checksums --disable -D DATA, start PostgreSQL",),
    ),
)
