"""Memory that the kernel may promise with overcommit_memory = 2, beside swap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.dimension._dimension import Context, Need
from pgdyno.dimension._kernel import VM, KernelLimit

if TYPE_CHECKING:
    from pgdyno.kernel import Parameter


class OvercommitLimit(KernelLimit):
    """The key ``kernel.overcommit_limit``."""

    id = "overcommit limit"
    order = 34
    field = "overcommit_limit"
    words = "overcommit limit"
    need = Need.LOAD_RESTART

    def parameter(self, context: Context) -> Parameter:
        """Return the limit."""
        from pgdyno.kernel import EitherFile

        name = f"{VM}/overcommit_"
        return EitherFile("vm.overcommit_ratio", f"{name}ratio", f"{name}kbytes", 1024)


DIMENSION = OvercommitLimit()
