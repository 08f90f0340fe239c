"""The table ``kernel`` of a spec: parameters of the machine's kernel, which root changes for a run.

What is left out stays as it is. Sources: Documentation/admin-guide/sysctl/vm.rst and
Documentation/ABI/stable/sysfs-block of the Linux kernel, and its device-mapper/dm-crypt.rst.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pgdyno.spec._base import SpecTable
from pgdyno.spec.units import parse_size_bytes

PAGE_BYTES = 4096
CRYPT_FLAGS = ("no_read_workqueue", "no_write_workqueue")
_SHARE = r"(\d{1,3})\s*%"
_HUGE_PAGES_MAX = 1 << 24


def share_or_bytes(text: str) -> tuple[int, int]:
    """Return the percentage and the bytes of ``20%`` or ``256MB``, of which one is 0. Raises
    ValueError."""
    if share := re.fullmatch(_SHARE, text.strip()):
        return int(share[1]), 0
    return 0, parse_size_bytes(text)


def _limit(text: str) -> str:
    share, size = share_or_bytes(text)
    if share > 100:
        raise ValueError(f"{text}: must be at most 100%")
    if not share and size < 2 * PAGE_BYTES:
        raise ValueError(f"{text}: must be at least 1%, or 8kB")
    if size % 1024:
        raise ValueError(f"{text}: must be whole kB")
    return text.strip()


def _read_ahead(text: str) -> str:
    if parse_size_bytes(text) % PAGE_BYTES:
        raise ValueError(f"{text}: must be a multiple of 4kB, a page of memory")
    return text.strip()


def crypt_flags(text: str) -> frozenset[str]:
    """Return the flags of ``none``, or of names joined by ``+``. Raises ValueError."""
    names = frozenset() if text.strip() == "none" else frozenset(text.replace(" ", "").split("+"))
    if unknown := names - set(CRYPT_FLAGS):
        listed = ", ".join(sorted(unknown))
        raise ValueError(f"{listed}: must be none, {' or '.join(CRYPT_FLAGS)}, or both with +")
    return names


def _crypt(text: str) -> str:
    crypt_flags(text)
    return text.strip()


Limit = Annotated[str, AfterValidator(_limit)]


class KernelSpec(SpecTable):
    """Parameters of this machine's kernel during the run; for all of its programs."""

    read_ahead: Annotated[str, AfterValidator(_read_ahead)] | None = Field(
        None, description="Read-ahead of the data's disk, such as 4MB"
    )
    dirty: Limit | None = Field(
        None,
        description="Changed pages in memory above which programs that write must wait"
        " (vm.dirty_ratio or vm.dirty_bytes), such as 10% or 256MB",
    )
    dirty_background: Limit | None = Field(
        None,
        description="Changed pages in memory above which the kernel begins to write them"
        " (vm.dirty_background_ratio or vm.dirty_background_bytes)",
    )
    overcommit_limit: Limit | None = Field(
        None,
        description="Memory beside swap that may be promised with overcommit_memory = 2"
        " (vm.overcommit_ratio or vm.overcommit_kbytes)",
    )
    overcommit_memory: Literal[0, 1, 2] | None = Field(
        None, description="Whether the kernel promises more memory than there is (vm.*)"
    )
    huge_pages: int | None = Field(
        None,
        ge=0,
        le=_HUGE_PAGES_MAX,
        description="Number of huge pages that are reserved (vm.nr_hugepages); the server uses them"
        " if its shared memory fits, with huge_pages = on it does not start without them",
    )
    crypt: Annotated[str, AfterValidator(_crypt)] | None = Field(
        None,
        description="Work queues that the encrypted disk of the data goes without:"
        " no_read_workqueue, no_write_workqueue, both with +, or none",
    )
