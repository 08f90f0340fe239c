"""A recorded load, of this drill or of a saved recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.drill.power._images import Recorded
from pgdyno.drill.power._names import Names

if TYPE_CHECKING:
    from pgdyno.record import AckLedger


class RecordedLoad(Struct, frozen=True):
    """Recordings of the disks, ack ledger and names of relations of one load."""

    disks: Recorded
    acks: AckLedger
    names: Names
    marks_ns: Sequence[int]
    """Starts and ends of checkpoints."""

    @property
    def last_ns(self) -> int:
        """The last time that the recordings of all disks include."""
        return min(disk["last_ns"] for disk in self.disks.logs.facts())
