"""Promises of more memory than there is: 0 by the kernel's guess, 1 always, 2 never."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.dimension._dimension import Context, Need
from pgdyno.dimension._kernel import VM, KernelDimension
from pgdyno.errors import SetupError
from pgdyno.spec.units import format_size

if TYPE_CHECKING:
    from pgdyno.kernel import Parameter

_MEMINFO = Path("/proc/meminfo")
_ROOM_MIN = 0.2
"""Part of the limit that must be free, so that other programs and the load's sessions start."""


class OvercommitMemory(KernelDimension):
    """The key ``kernel.overcommit_memory``."""

    id = "overcommit"
    order = 35
    field = "overcommit_memory"
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


DIMENSION = OvercommitMemory()
