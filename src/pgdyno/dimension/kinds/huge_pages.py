"""Huge pages that the kernel reserves, for the server's shared memory; set while it is down.

The server takes them if all of its shared memory fits (huge_pages = try, the default), and does not
start without them with huge_pages = on; ``postgres -C shared_memory_size_in_huge_pages`` says how
many it takes, from PostgreSQL 15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.dimension._dimension import Context, Need
from pgdyno.dimension._kernel import VM, KernelDimension

if TYPE_CHECKING:
    from pgdyno.kernel import Parameter


class HugePages(KernelDimension):
    """The key ``kernel.huge_pages``."""

    id = "huge pages"
    order = 36
    field = "huge_pages"
    words = "huge pages"
    need = Need.SERVER_RESTART

    def parameter(self, context: Context) -> Parameter:
        """Return their number."""
        from pgdyno.kernel import OneFile

        return OneFile("vm.nr_hugepages", f"{VM}/nr_hugepages")


DIMENSION = HugePages()
