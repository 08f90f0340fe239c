"""Shared memory: buffers for pages and for WAL. Read at the server's start only."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    Remedy(
        id="wal-buffers",
        summary="more room for WAL before a session must write it itself",
        kind="restart",
        durability_class="D0",
        bound="nothing is lost",
        price="its size in memory, and a restart",
        settings=("wal_buffers",),
    ),
    Remedy(
        id="shared-buffers",
        summary="keep more of the data in PostgreSQL's own buffers",
        kind="restart",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "its size in memory, taken from the kernel's cache, and a restart; a checkpoint may"
            " have more to write"
        ),
        settings=("shared_buffers",),
        when=lambda case: not case.shrinks("shared_buffers", 128 << 20),
        checkpoint_bound=True,
    ),
)
