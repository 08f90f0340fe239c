"""The server's log on wraparound: vacuums to prevent it, the failsafe, warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 1 << 20
LOG_SETTINGS = {"log_autovacuum_min_duration": "0", "log_min_messages": "warning"}
"""Settings under which the server's log has these messages."""
_VACUUM = re.compile(rb"LOG: +automatic (?:aggressive )?vacuum to prevent wraparound of table ")
_FAILSAFE = re.compile(rb'bypassing nonessential maintenance of table "([^"]+)" as a failsafe')
_WARNING = re.compile(rb"WARNING: +database .{1,80} must be vacuumed (?:within|before) ")


@dataclass
class Counts:
    """Messages of a part of the log."""

    vacuums: int = 0
    failsafe: int = 0
    warnings: int = 0
    failsafe_tables: tuple[str, ...] = ()
    """Names of the tables of the failsafe, with their database and schema."""


def counts_of(log: Path, begin: int, end: int) -> Counts:
    """Return the messages in the bytes from ``begin`` to ``end`` of a log."""
    counts = Counts()
    tables: dict[str, None] = {}
    for line in _lines(log, begin, end):
        if _VACUUM.search(line):
            counts.vacuums += 1
        elif found := _FAILSAFE.search(line):
            counts.failsafe += 1
            tables[found[1].decode(errors="replace")] = None
        elif _WARNING.search(line):
            counts.warnings += 1
    counts.failsafe_tables = tuple(tables)
    return counts


def _lines(log: Path, begin: int, end: int) -> Iterator[bytes]:
    """Yield the lines, however long the log is: each refused transaction writes some."""
    with log.open("rb") as file:
        file.seek(begin)
        rest, left = b"", end - begin
        while left > 0 and (chunk := file.read(min(CHUNK_BYTES, left))):
            left -= len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
        yield rest
