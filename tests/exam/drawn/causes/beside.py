"""What runs beside the load, or in front of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exam.drawn.model import Draft, Entry, Right


def _beside(name: str, *strengths: float) -> Callable[[Draft], dict[str, Any]]:
    return lambda draft: {"beside": {name: draft.chance.choice(strengths)}}


ENTRIES = (
    Entry(
        "programs",
        "other programs",
        Right(findings=("other-programs", "cpu-steal", "cpu-throttled")),
        fault=_beside("programs", 2, 4),
    ),
    Entry(
        "other-sessions",
        "other sessions",
        Right(findings=("other-load",)),
        fault=_beside("sessions", 2, 4),
    ),
    Entry(
        "checkpoints",
        "other sessions",
        Right(findings=("checkpoint-fpi", "checkpoint-dips", "full-pages")),
        fault=_beside("checkpoints", 0.2, 0.5),
        loads=("update-parent", "update-child", "upsert", "insert-batch"),
    ),
    Entry(
        "vacuums",
        "other sessions",
        Right(findings=("vacuum-load", "other-load")),
        fault=_beside("vacuums", 0.05, 0.2),
        loads=("update-child", "by-key", "range"),
        partitions=(0, 0),
    ),
    Entry(
        "far-away",
        "round trips",
        Right(findings=("round-trips",)),
        fault=_beside("link", 2, 5, 10),
        clients=(2, 6),
    ),
    Entry(
        "slow-wal-disk",
        "slow disk",
        Right(findings=("commit-flush",)),
        fault=_beside("wal-disk", 2, 5),
        loads=("update-parent", "insert-log", "upsert", "insert-batch"),
    ),
    Entry(
        "table-locked",
        "locks",
        Right(findings=("relation-lock",)),
        fault=_beside("lock", 0.5, 0.8),
        loads=("update-child",),
    ),
    Entry(
        "row-locked",
        "locks",
        Right(findings=("hot-row", "batch-update", "foreign-key", "idle-in-transaction")),
        fault=_beside("rows", 0.5, 0.8),
        loads=("update-parent",),
    ),
)
