"""Writing dirty pages out early and in small portions, so that neither a checkpoint's sync nor the
kernel has a large heap of them to write at once."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    Remedy(
        id="flush-early",
        summary="ask the kernel to write back early instead of in bursts",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "pages that are dirtied again are written more than once; throughput between the"
            " stalls may fall a little"
        ),
        settings=("checkpoint_flush_after", "backend_flush_after", "bgwriter_flush_after"),
        checkpoint_bound=True,
    ),
    Remedy(
        id="bgwriter",
        summary="let the background writer clean buffers sooner",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price="pages that are dirtied again are written more than once",
        settings=("bgwriter_delay", "bgwriter_lru_maxpages", "bgwriter_lru_multiplier"),
        checkpoint_bound=True,
    ),
)
