"""The WAL records that touch a block, or lie at a position, as ``pg_waldump`` tells them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pgdyno.drill.power._names import BlockOf
from pgdyno.server import Installation
from pgdyno.server.local.account import plain_environment, server_account
from pgdyno.server.lsn import lsn_text, parse_lsn

_RECORD = re.compile(
    r"rmgr: (?P<manager>\S+) .*?lsn: (?P<lsn>[0-9A-F/]+), prev \S+ desc: (?P<what>.*)"
)
_BLOCK = re.compile(
    r"blkref #\d+: rel (\d+)/(\d+)/(\d+)(?: fork (?:forknum )?(\w+))? blk (\d+)(?P<image> FPW)?"
)


@dataclass(frozen=True)
class Record:
    """One WAL record."""

    lsn: int
    next_lsn: int | None
    """Where the next record begins; ``None`` when this is the last that can be read."""
    what: str
    """Its manager and kind: ``Heap/HOT_UPDATE``."""
    blocks: frozenset[BlockOf]
    images: frozenset[BlockOf]
    """The blocks of which it carries a full image."""

    def sentence(self) -> str:
        """For a reader: ``Heap/HOT_UPDATE at 0/16B3748``."""
        return f"{self.what} at {lsn_text(self.lsn)}"


def read_records(
    installation: Installation, wal_dir: Path, timeline: int, begin: int
) -> Iterator[Record]:
    """Every record from ``begin`` to where the WAL ends or breaks off, in order."""
    account = server_account()
    command = [
        str(installation.binary("pg_waldump")),
        f"--path={wal_dir}",
        f"--timeline={timeline}",
        f"--start={lsn_text(begin)}",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # It always ends with a complaint about where the WAL ends.
        env=plain_environment(),
        text=True,
        errors="replace",
        cwd="/",
        user=None if account is None else account.uid,
        group=None if account is None else account.gid,
        extra_groups=None if account is None else (),
    ) as dump:
        assert dump.stdout is not None
        try:
            yield from parse_records(dump.stdout)
        finally:
            dump.kill()


def parse_records(lines: Iterator[str] | Collection[str]) -> Iterator[Record]:
    """Records from what ``pg_waldump`` prints."""
    before: re.Match[str] | None = None
    for line in lines:
        if found := _RECORD.match(line):
            if before:
                yield _record(before, parse_lsn(found["lsn"]))
            before = found
    if before:
        yield _record(before, None)


def _record(found: re.Match[str], next_lsn: int | None) -> Record:
    references = list(_BLOCK.finditer(found["what"]))
    kind = re.split(r"[\s:;,]", found["what"], maxsplit=1)[0]
    return Record(
        lsn=parse_lsn(found["lsn"]),
        next_lsn=next_lsn,
        what=f"{found['manager']}/{kind}",
        blocks=frozenset(map(_block, references)),
        images=frozenset(_block(one) for one in references if one["image"]),
    )


def _block(found: re.Match[str]) -> BlockOf:
    tablespace, database, node, fork, block = found.groups()[:5]
    return BlockOf(int(tablespace), int(database), int(node), fork or "main", int(block))
