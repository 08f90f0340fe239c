"""Explanation of a failing cut: relation, block and WAL records of each sector. The records, with
the blocks that they refer to, are those that ``pg_waldump`` prints.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from msgspec import Struct

from pgdyno.drill.power._location import BlockOf, Location
from pgdyno.server import Installation
from pgdyno.server.local.account import server_account, under
from pgdyno.server.lsn import lsn_text, parse_lsn

_RECORD = re.compile(
    r"rmgr: (?P<manager>\S+) .*?lsn: (?P<lsn>[0-9A-F/]+), prev \S+ desc: (?P<description>.*)"
)
_BLOCK = re.compile(
    r"blkref #\d+: rel (\d+)/(\d+)/(\d+)(?: fork (?:forknum )?(\w+))? blk (\d+)(?P<image> FPW)?"
)
_SECTORS_SHOWN = 5


class WalRecord(Struct, frozen=True):
    """A WAL record."""

    lsn: int
    next_lsn: int | None
    """Start of the next record; ``None`` for the last record that can be read."""
    kind: str
    """Resource manager and type, such as ``Heap/HOT_UPDATE``."""
    blocks: frozenset[BlockOf]
    images: frozenset[BlockOf]
    """Blocks of which it contains a full-page image."""

    def sentence(self) -> str:
        """Return a text such as ``Heap/HOT_UPDATE at 0/16B3748``."""
        return f"{self.kind} at {lsn_text(self.lsn)}"


def read_records(
    installation: Installation, wal_dir: Path, timeline: int, begin: int
) -> Iterator[WalRecord]:
    """Yield all records from ``begin`` to the end of the valid WAL."""
    command = [
        str(installation.program("pg_waldump")),
        f"--path={wal_dir}",
        f"--timeline={timeline}",
        f"--start={lsn_text(begin)}",
    ]
    with subprocess.Popen(
        **under(server_account(), command),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # It always ends with an error at the end of the WAL.
        text=True,
        errors="replace",
    ) as dump:
        assert dump.stdout is not None
        try:
            yield from parse_records(dump.stdout)
        finally:
            dump.kill()


def parse_records(lines: Iterator[str] | Collection[str]) -> Iterator[WalRecord]:
    """Yield the records in the output of ``pg_waldump``."""
    before: re.Match[str] | None = None
    for line in lines:
        if found := _RECORD.match(line):
            if before:
                yield _record(before, parse_lsn(found["lsn"]))
            before = found
    if before:
        yield _record(before, None)


def _record(found: re.Match[str], next_lsn: int | None) -> WalRecord:
    references = list(_BLOCK.finditer(found["description"]))
    record_type = re.split(r"[\s:;,]", found["description"], maxsplit=1)[0]
    return WalRecord(
        lsn=parse_lsn(found["lsn"]),
        next_lsn=next_lsn,
        kind=f"{found['manager']}/{record_type}",
        blocks=frozenset(map(_block, references)),
        images=frozenset(_block(each) for each in references if each["image"]),
    )


def _block(found: re.Match[str]) -> BlockOf:
    tablespace, database, node, fork, block = found.groups()[:5]
    return BlockOf(int(tablespace), int(database), int(node), fork or "main", int(block))


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
