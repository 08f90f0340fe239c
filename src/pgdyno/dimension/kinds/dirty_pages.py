"""Changed pages in the kernel's memory above which programs that write must wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.dimension._dimension import Context
from pgdyno.dimension._kernel import VM, KernelLimit

if TYPE_CHECKING:
    from pgdyno.kernel import Parameter


class DirtyPages(KernelLimit):
    """The key ``kernel.dirty``, or that of the pages above which the kernel begins to write."""

    def __init__(self, field: str, words: str, order: int) -> None:
        """``field`` is the key, and what the files of the kernel begin with."""
        self.id = self.words = words
        self.order = order
        self.field = field

    def parameter(self, context: Context) -> Parameter:
        """Return the limit."""
        from pgdyno.kernel import EitherFile

        name = f"{self.field}_"
        return EitherFile(f"vm.{self.field}", f"{VM}/{name}ratio", f"{VM}/{name}bytes", 1)


DIMENSION = DirtyPages("dirty", "dirty pages at most", 32)
