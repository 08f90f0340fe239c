"""Remedies that change the frequency of checkpoints or spread their writes.

Crash recovery replays the WAL since the last checkpoint's redo record, so it takes longer with less
frequent checkpoints; see "WAL Configuration" in PostgreSQL's documentation.
"""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy

_MAX_WAL_BYTES = 1 << 30
_TIMEOUT_MS = 300_000.0
"""PostgreSQL's defaults of max_wal_size and checkpoint_timeout."""


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
)
