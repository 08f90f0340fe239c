"""What a failing cut comes down to, in PostgreSQL's words: relation, block, sector, WAL record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.drill.power._names import Spot
from pgdyno.drill.power._walrecords import Record

_SPOTS_SHOWN = 5


@dataclass
class Touching:
    """The records that touch one block, or the one that lies at a position of the WAL."""

    first: Record | None = None
    last: Record | None = None
    count: int = 0

    def add(self, record: Record) -> None:
        """One more, later than those before."""
        self.first = self.first or record
        self.last = record
        self.count += 1

    def sentence(self, spot: Spot) -> str:
        """What they are, for a reader."""
        if self.first is None or self.last is None:
            return "no WAL record since the last checkpoint touches it"
        if spot.wal is not None:
            return f"part of {self.first.sentence()}"
        image = "a full image of it" if spot.block in self.first.images else "no full image of it"
        first = f"{self.first.sentence()}, the first of {self.count} to touch it, holds {image}"
        return first if self.count == 1 else f"{first}; the last is {self.last.sentence()}"


def touching(spots: Sequence[Spot], records: Iterable[Record]) -> list[Touching]:
    """For each spot what touches it; ``records`` are gone through once."""
    found = [Touching() for _ in spots]
    of_block: dict[Any, list[Touching]] = {}
    for spot, entry in zip(spots, found, strict=True):
        if spot.block is not None:
            of_block.setdefault(spot.block, []).append(entry)
    positions = [(s.wal, entry) for s, entry in zip(spots, found, strict=True) if s.wal is not None]
    for record in records:
        for block in record.blocks:
            for entry in of_block.get(block, ()):
                entry.add(record)
        for position, entry in positions:
            if record.lsn <= position and (record.next_lsn is None or position < record.next_lsn):
                entry.first = entry.last = record
                entry.count = 1
    return found


def explained(
    sectors: Sequence[dict[str, int]], spots: Sequence[Spot], found: Sequence[Touching]
) -> list[dict[str, Any]]:
    """The facts of each sector, for results."""
    return [
        {
            **sector,
            "file": spot.file,
            "relation": spot.name or None,
            "block": spot.block.block if spot.block else None,
            "fork": spot.block.fork if spot.block else None,
            "is": spot.sentence(),
            "wal": entry.sentence(spot) if spot.block or spot.wal is not None else None,
        }
        for sector, spot, entry in zip(sectors, spots, found, strict=True)
    ]


def sentence(direction: str, facts: Sequence[dict[str, Any]], *, undecided: int) -> str:
    """One sentence for the terminal and the report."""
    if not facts:
        return (
            f"it also fails with none of {undecided:,} undecided sectors {direction}: what it"
            " misses was not yet on its way to the disk"
        )
    shown = "; ".join(
        f"{fact['is']}" + (f" – {fact['wal']}" if fact["wal"] else "")
        for fact in facts[:_SPOTS_SHOWN]
    )
    more = f"; and {len(facts) - _SPOTS_SHOWN} more" if len(facts) > _SPOTS_SHOWN else ""
    sectors = "1 sector" if len(facts) == 1 else f"{len(facts)} sectors"
    return f"of {undecided:,} undecided sectors it takes {sectors} to be {direction}: {shown}{more}"
