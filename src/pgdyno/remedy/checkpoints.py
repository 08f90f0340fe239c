"""Remedies that change the frequency of checkpoints, spread their writes, or compress or omit the
full-page images that follow them.

Crash recovery replays the WAL since the last checkpoint's redo record, so it takes longer with less
frequent checkpoints; see "WAL Configuration" in PostgreSQL's documentation.

Without full-page images a page torn by a power cut cannot be restored; see full_page_writes in
PostgreSQL's documentation. Without data checksums, corruption may cause no error.
"""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy, Risk
from pgdyno.remedy.circumstances import Circumstances

_MAX_WAL_BYTES = 1 << 30
_TIMEOUT_MS = 300_000.0
"""PostgreSQL's defaults of max_wal_size and checkpoint_timeout."""
_TORN = "a power cut may leave torn pages, with data lost or corrupted"
_ATOMIC = "nothing is lost (D0) only if the storage writes 8 kB pages atomically"


def _less_wal(case: Case) -> bool:
    return case.shrinks("max_wal_size", _MAX_WAL_BYTES)


def _sooner(case: Case) -> bool:
    before, after = (
        side.settings.duration_ms("checkpoint_timeout") or _TIMEOUT_MS
        for side in (case.before, case.after)
    )
    return after < before


def _rarer(case: Case) -> bool:
    return not _less_wal(case) and not _sooner(case)


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
        id="checkpoint-distance",
        summary="allow more WAL and time between checkpoints, for fewer full-page images",
        kind="reload",
        durability_class="D0",
        price=(
            "longer crash recovery (it replays all WAL since the last checkpoint), and more disk"
            " space for WAL, about max_wal_size"
        ),
        settings=("max_wal_size", "checkpoint_timeout", "min_wal_size"),
        when=_rarer,
        checkpoint_bound=True,
        cycles=2,
    ),
    Remedy(
        id="wal-within-disk",
        summary="start checkpoints early enough for the WAL to fit on its disk",
        kind="reload",
        durability_class="D0",
        price="more checkpoints and more full-page images; a larger disk avoids both",
        settings=("max_wal_size",),
        when=_less_wal,
        checkpoint_bound=True,
        cycles=2,
        guards=True,
    ),
    Remedy(
        id="checkpoint-sooner",
        summary="allow less time between checkpoints, for a shorter crash recovery",
        kind="reload",
        durability_class="D0",
        price="more checkpoints and more full-page images",
        settings=("checkpoint_timeout",),
        when=_sooner,
        checkpoint_bound=True,
        cycles=2,
    ),
    Remedy(
        id="checkpoint-spread",
        summary="spread a checkpoint's writes over more of the time until the next one",
        kind="reload",
        durability_class="D0",
        price=(
            "more WAL is kept for crash recovery, and max_wal_size triggers checkpoints earlier,"
            " after max_wal_size / (1 + checkpoint_completion_target) of WAL"
        ),
        settings=("checkpoint_completion_target",),
        checkpoint_bound=True,
        cycles=2,
    ),
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
