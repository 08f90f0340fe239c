"""Remedies that write dirty pages early and in small portions, so that neither a checkpoint's sync
nor the kernel must write many of them at once."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    Remedy(
        id="flush-early",
        summary="make the kernel write dirty pages back early instead of in bursts",
        kind="reload",
        durability_class="D0",
        price=(
            "pages that are modified again are written more than once; throughput between stalls"
            " may fall slightly"
        ),
        settings=("checkpoint_flush_after", "backend_flush_after", "bgwriter_flush_after"),
        checkpoint_bound=True,
    ),
    Remedy(
        id="bgwriter",
        summary="make the background writer write dirty buffers earlier",
        kind="reload",
        durability_class="D0",
        price="pages that are modified again are written more than once",
        settings=("bgwriter_delay", "bgwriter_lru_maxpages", "bgwriter_lru_multiplier"),
        checkpoint_bound=True,
    ),
)
