"""What is known of one recorded load, whether it was made now or kept before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.drill.power._images import Recorded
from pgdyno.drill.power._names import Names

if TYPE_CHECKING:
    from pgdyno.record import AckLedger


@dataclass(frozen=True)
class RecordedLoad:
    """What is known of one load, on the disks and outside of them."""

    disks: Recorded
    acks: AckLedger
    names: Names
    marks_ns: Sequence[int]
    """When checkpoints began and ended."""

    @property
    def last_ns(self) -> int:
        """The last time that all disks have on record."""
        return min(disk["last_ns"] for disk in self.disks.logs.facts())
