"""Parameters of the kernel: memory that it promises, huge pages, and changed pages in its cache."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.dimension._dimension import Context, Need
from pgdyno.dimension._kernel import VM, KernelDimension, KernelLimit
from pgdyno.errors import SetupError
from pgdyno.spec.units import format_size

if TYPE_CHECKING:
    from pgdyno.kernel import Parameter


class DirtyPages(KernelLimit):
    """Changed pages in the kernel's memory above which programs that write must wait. The key
    ``kernel.dirty``, or that of the pages above which the kernel begins to write."""

    def __init__(self, field: str, words: str, order: int) -> None:
        """``field`` is the key within the table, and the beginning of the kernel's files."""
        self.id = self.words = words
        self.order = order
        self.key = f"kernel.{field}"

    def parameter(self, context: Context) -> Parameter:
        """Return the limit."""
        from pgdyno.kernel import EitherFile

        name = f"{self.field}_"
        return EitherFile(f"vm.{self.field}", f"{VM}/{name}ratio", f"{VM}/{name}bytes", 1)


DIRTY_PAGES = DirtyPages("dirty", "dirty pages at most", 32)


DIRTY_BACKGROUND = DirtyPages("dirty_background", "dirty pages written from", 33)


class OvercommitLimit(KernelLimit):
    """Memory that the kernel may promise with overcommit_memory = 2, beside swap. The key
    ``kernel.overcommit_limit``."""

    id = "overcommit limit"
    order = 34
    key = "kernel.overcommit_limit"
    words = "overcommit limit"
    need = Need.LOAD_RESTART

    def parameter(self, context: Context) -> Parameter:
        """Return the limit."""
        from pgdyno.kernel import EitherFile

        name = f"{VM}/overcommit_"
        return EitherFile("vm.overcommit_ratio", f"{name}ratio", f"{name}kbytes", 1024)


OVERCOMMIT_LIMIT = OvercommitLimit()


_MEMINFO = Path("/proc/meminfo")
_ROOM_MIN = 0.2
"""Part of the limit that must be free, so that other programs and the load's sessions start."""


class OvercommitMemory(KernelDimension):
    """Promises of more memory than there is: 0 by the kernel's guess, 1 always, 2 never. The key
    ``kernel.overcommit_memory``."""

    id = "overcommit"
    order = 35
    key = "kernel.overcommit_memory"
    words = "overcommit_memory"
    need = Need.LOAD_RESTART

    def parameter(self, context: Context) -> Parameter:
        """Return the parameter."""
        from pgdyno.kernel import OneFile

        return OneFile("vm.overcommit_memory", f"{VM}/overcommit_memory")

    def check(self, context: Context, value: str) -> None:
        """Refuse a limit that is used up already: no program of the machine would get memory."""
        if value == "2":
            check_room(_MEMINFO.read_text())


def check_room(meminfo: str) -> None:
    """Raise SetupError if too much memory is promised for the limit to hold, by /proc/meminfo."""
    kb = {name: int(found) for name, found in re.findall(r"^(\w+):\s+(\d+) kB", meminfo, re.M)}
    limit, promised = kb.get("CommitLimit", 0), kb.get("Committed_AS", 0)
    if promised > (1 - _ROOM_MIN) * limit:
        raise SetupError(
            f"kernel.overcommit_memory: the machine has promised {format_size(promised << 10)} of"
            f" memory already, of {format_size(limit << 10)} that it may promise with 2",
            code="kernel-commit-limit",
            hint="raise kernel.overcommit_limit, such as to 90%",
        )


OVERCOMMIT_MEMORY = OvercommitMemory()


class HugePages(KernelDimension):
    """Huge pages that the kernel reserves, for the server's shared memory; set while it is down.

    The server takes them if all of its shared memory fits (huge_pages = try, the default), and does
    not start without them with huge_pages = on; ``postgres -C shared_memory_size_in_huge_pages``
    says how many it takes, from PostgreSQL 15. The key ``kernel.huge_pages``.
    """

    id = "huge pages"
    order = 36
    key = "kernel.huge_pages"
    words = "huge pages"
    need = Need.SERVER_RESTART

    def parameter(self, context: Context) -> Parameter:
        """Return their number."""
        from pgdyno.kernel import OneFile

        return OneFile("vm.nr_hugepages", f"{VM}/nr_hugepages")


HUGE_PAGES = HugePages()
