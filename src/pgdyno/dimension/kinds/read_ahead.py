"""Read-ahead of the disk that holds the data: bytes that the kernel reads beyond what is asked.

A file keeps the read-ahead with which it was opened, and sessions keep files open: the load starts
again, and its sessions open theirs again. Direct I/O does without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.dimension._dimension import Context, Need
from pgdyno.dimension._kernel import KernelDimension
from pgdyno.errors import SetupError
from pgdyno.spec.units import parse_size_bytes

if TYPE_CHECKING:
    from pgdyno.kernel import Parameter


class ReadAhead(KernelDimension):
    """The key ``kernel.read_ahead``."""

    id = "read-ahead"
    order = 31
    field = "read_ahead"
    words = "read-ahead"
    keys = "kernel.*"
    need = Need.LOAD_RESTART

    def parameter(self, context: Context) -> Parameter:
        """Return the read-ahead of the data's device."""
        from pgdyno.kernel import OneFile
        from pgdyno.probe import SYS_BLOCK, device_of

        data_dir = context.server.data_dir
        device = device_of(data_dir) if data_dir is not None else ""
        path = Path(SYS_BLOCK, device, "queue", "read_ahead_kb")
        if not device or not path.exists():
            raise SetupError(
                f"{self.key}: the data are on no block device that this machine shows",
                code="kernel-no-device",
                hint="tmpfs, network file systems and FUSE have no read-ahead of a disk",
            )
        return OneFile(f"read_ahead_kb of {device}", str(path))

    def value(self, wanted: Any) -> str:
        """Return kB."""
        return str(parse_size_bytes(wanted) // 1024)


DIMENSION = ReadAhead()
