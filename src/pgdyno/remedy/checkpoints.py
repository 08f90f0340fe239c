"""Fewer checkpoints, and checkpoints spread more evenly.

Crash recovery replays the WAL since the last checkpoint's redo point, so whatever makes checkpoints
rarer makes it longer; see PostgreSQL's documentation, "WAL configuration".
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
        summary="more WAL and more time between checkpoints, so fewer full-page images",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "longer crash recovery (all WAL since the last checkpoint is replayed) and up to"
            " max_wal_size of disk for WAL"
        ),
        settings=("max_wal_size", "checkpoint_timeout", "min_wal_size"),
        when=_rarer,
        checkpoint_bound=True,
    ),
    Remedy(
        id="wal-within-disk",
        summary="checkpoints early enough for the WAL to fit on its disk",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price="more checkpoints, and more full-page images after them; a larger disk has no price",
        settings=("max_wal_size",),
        when=_less_wal,
        checkpoint_bound=True,
        guards=True,
    ),
    Remedy(
        id="checkpoint-sooner",
        summary="less time between checkpoints, so a shorter crash recovery",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price="more checkpoints, and more full-page images after them",
        settings=("checkpoint_timeout",),
        when=_sooner,
        checkpoint_bound=True,
    ),
    Remedy(
        id="checkpoint-spread",
        summary="spread a checkpoint's writes over more of the time to the next",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "WAL is kept a little longer, and WAL-triggered checkpoints begin earlier:"
            " max_wal_size / (1 + checkpoint_completion_target)"
        ),
        settings=("checkpoint_completion_target",),
        checkpoint_bound=True,
    ),
)
