"""Parameters of block devices, on which the data are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.dimension._dimension import Context, Need
from pgdyno.dimension._kernel import KernelDimension
from pgdyno.errors import SetupError
from pgdyno.spec.kernel import CRYPT_FLAGS, crypt_flags
from pgdyno.spec.units import parse_size_bytes

if TYPE_CHECKING:
    from pgdyno.kernel import Parameter


class ReadAhead(KernelDimension):
    """Read-ahead of the disk that holds the data: bytes that the kernel reads beyond what is asked.

    A file keeps the read-ahead with which it was opened, and sessions keep files open: the load
    starts again, and its sessions open theirs again. Direct I/O does without it. The key
    ``kernel.read_ahead``.
    """

    id = "read-ahead"
    order = 31
    key = "kernel.read_ahead"
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


READ_AHEAD = ReadAhead()


class CryptedQueues(KernelDimension):
    """Work queues of the encrypted disk (dm-crypt) that holds the data, which it may go without.

    Without them each program encrypts what it writes itself, and decrypts what it reads: less
    waiting, and all of a checkpoint's encryption in one process. The key ``kernel.crypt``.
    """

    id = "crypt queues"
    order = 37
    key = "kernel.crypt"
    words = "dm-crypt"

    def parameter(self, context: Context) -> Parameter:
        """Return the flags of the encrypted device below the data."""
        from pgdyno.kernel import CryptQueues
        from pgdyno.probe import SYS_BLOCK, device_of

        data_dir = context.server.data_dir
        device = device_of(data_dir) if data_dir is not None else ""
        found = next(crypt_devices(SYS_BLOCK, device), None) if device else None
        if found is None:
            where = f"on {device}, which is" if device else "on a disk that is"
            why = (
                "" if Path("/dev/mapper/control").exists() else "; this kernel has no device mapper"
            )
            raise SetupError(
                f"{self.key}: the data are {where} not encrypted by dm-crypt{why}",
                code="kernel-no-crypt",
                hint="leave kernel.crypt out; it is for data on a LUKS disk",
            )
        return CryptQueues(f"work queues of the encrypted disk {found}", found)

    def value(self, wanted: Any) -> str:
        """Return the flags in the order in which they are read back."""
        flags = crypt_flags(wanted)
        return "+".join(flag for flag in CRYPT_FLAGS if flag in flags) or "none"


def crypt_devices(blocks: Path, device: str) -> Iterator[str]:
    """Yield the names of encrypted devices in the device mapper: ``device`` itself, or below it;
    ``blocks`` is the kernel's directory of block devices."""
    mapped = blocks / device / "dm"
    if mapped.is_dir() and (mapped / "uuid").read_text().startswith("CRYPT-"):
        yield (mapped / "name").read_text().strip()
    below = blocks / device / "slaves"
    for each in sorted(below.iterdir()) if below.is_dir() else ():
        yield from crypt_devices(blocks, each.name)


CRYPT_QUEUES = CryptedQueues()
