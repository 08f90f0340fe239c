"""Changed pages in the kernel's memory above which the kernel begins to write them."""

from __future__ import annotations

from pgdyno.dimension.kinds.dirty_pages import DirtyPages

DIMENSION = DirtyPages("dirty_background", "dirty pages written from", 33)
