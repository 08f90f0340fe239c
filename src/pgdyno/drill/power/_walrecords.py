"""WAL records with the blocks that they refer to, as printed by ``pg_waldump``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from pgdyno.drill.power._names import BlockOf
from pgdyno.server import Installation
from pgdyno.server.local.account import server_account, under
from pgdyno.server.lsn import lsn_text, parse_lsn

_RECORD = re.compile(
    r"rmgr: (?P<manager>\S+) .*?lsn: (?P<lsn>[0-9A-F/]+), prev \S+ desc: (?P<description>.*)"
)
_BLOCK = re.compile(
    r"blkref #\d+: rel (\d+)/(\d+)/(\d+)(?: fork (?:forknum )?(\w+))? blk (\d+)(?P<image> FPW)?"
)


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
