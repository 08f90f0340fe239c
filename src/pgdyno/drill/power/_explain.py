"""Explanation of a failing cut: relation, block and WAL records of each sector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from pgdyno.drill.power._names import BlockOf, Location
from pgdyno.drill.power._walrecords import WalRecord

_SECTORS_SHOWN = 5


@dataclass
class RecordsOf:
    """The WAL records that refer to a block, or the record at a position of the WAL."""

    first: WalRecord | None = None
    last: WalRecord | None = None
    count: int = 0

    def add(self, record: WalRecord) -> None:
        """Add a record, which must be later than those before."""
        self.first = self.first or record
        self.last = record
        self.count += 1

    def sentence(self, location: Location) -> str:
        """Return a text about the records."""
        if self.first is None or self.last is None:
            return "no WAL record since the last checkpoint refers to it"
        if location.wal is not None:
            return f"part of {self.first.sentence()}"
        image = "a" if location.block in self.first.images else "no"
        first = f"{self.first.sentence()}, the first of {self.count} records that refer to it,"
        first += f" has {image} full-page image"
        return first if self.count == 1 else f"{first}; the last is {self.last.sentence()}"


def records_of(locations: Sequence[Location], records: Iterable[WalRecord]) -> list[RecordsOf]:
    """Return the records of each location; ``records`` are read once."""
    found = [RecordsOf() for _ in locations]
    of_block: dict[BlockOf, list[RecordsOf]] = {}
    positions: list[tuple[int, RecordsOf]] = []
    for location, entry in zip(locations, found, strict=True):
        if location.block is not None:
            of_block.setdefault(location.block, []).append(entry)
        if location.wal is not None:
            positions.append((location.wal, entry))
    for record in records:
        for block in record.blocks:
            for entry in of_block.get(block, ()):
                entry.add(record)
        for position, entry in positions:
            if record.lsn <= position and (record.next_lsn is None or position < record.next_lsn):
                entry.first = entry.last = record
                entry.count = 1
    return found


class Sector(TypedDict):
    """Position and size of a sector."""

    disk: int
    offset: int
    bytes: int


ExplainedSector = TypedDict(
    "ExplainedSector",
    {
        "disk": int,
        "offset": int,
        "bytes": int,
        "file": str,
        "relation": str | None,
        "block": int | None,
        "fork": str | None,
        "is": str,
        "wal": str | None,
    },
)
"""A sector with its content (``is``) and its WAL records."""


class Minimised(TypedDict):
    """The result of a minimisation."""

    direction: Literal["lost", "written"]
    undecided: int
    """Number of undecided sectors of the cut."""
    tests: int
    exhausted: bool
    """True if the search was ended by its limit."""
    sectors: list[ExplainedSector]
    sentence: str


def explained(
    sectors: Sequence[Sector], locations: Sequence[Location], found: Sequence[RecordsOf]
) -> list[ExplainedSector]:
    """Return the sectors with their content and records."""
    return [
        {
            **sector,
            "file": location.file,
            "relation": location.name or None,
            "block": location.block.block if location.block else None,
            "fork": location.block.fork if location.block else None,
            "is": location.sentence(),
            "wal": entry.sentence(location) if location.block or location.wal is not None else None,
        }
        for sector, location, entry in zip(sectors, locations, found, strict=True)
    ]


def sentence(
    direction: Literal["lost", "written"], sectors: Sequence[ExplainedSector], *, undecided: int
) -> str:
    """Return one sentence for the terminal and the report."""
    if not sectors:
        return (
            f"it also fails if none of {undecided:,} undecided sectors is {direction}: what is"
            " missing had not been sent to the disk"
        )
    shown = "; ".join(
        f"{sector['is']}" + (f" – {sector['wal']}" if sector["wal"] else "")
        for sector in sectors[:_SECTORS_SHOWN]
    )
    more = f"; and {len(sectors) - _SECTORS_SHOWN} more" if len(sectors) > _SECTORS_SHOWN else ""
    count = "1 sector is" if len(sectors) == 1 else f"{len(sectors)} sectors are"
    return f"it fails if {count} {direction}, of {undecided:,} undecided sectors: {shown}{more}"
