"""Shared memory: buffers for pages and for WAL. Read only at server start."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    Remedy(
        id="wal-buffers",
        summary="buffer more WAL before a session must write it itself",
        kind="restart",
        durability_class="D0",
        price="memory of that size, and a restart",
        settings=("wal_buffers",),
    ),
    Remedy(
        id="shared-buffers",
        summary="keep more of the data in PostgreSQL's own buffers",
        kind="restart",
        durability_class="D0",
        price=(
            "memory of that size, which the kernel's cache loses, and a restart; checkpoints may"
            " write more"
        ),
        settings=("shared_buffers",),
        when=lambda case: not case.shrinks("shared_buffers", 128 << 20),
        checkpoint_bound=True,
    ),
)
