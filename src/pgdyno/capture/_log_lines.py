"""Lines of a server's log (csvlog, jsonlog) as far as they say which statements were executed.

Of a line these are read: time, session and number, database, role, application, tag of the command,
virtual transaction, and the id of the statement. The message is only looked at to tell the duration
of a statement from other messages, by its form and not by its words, which are those of
lc_messages; neither texts nor parameters are kept.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from pgdyno.files import open_named

BYTES_MAX = 1 << 30
"""Of a file, from its end."""
_RECORD_BYTES_MAX = 1 << 20
"""Of a line with all that it quotes; a longer one is passed over."""
_COLUMNS = 26
"""Of csvlog since PostgreSQL 14, which added the id of the statement."""
_BEGINNING = re.compile(
    rb'(\{"timestamp":")?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) [^,]*,'
    rb'(?(1)|(?:(?:"[^"]*")?,){2}\d*,(?:"[^"]*")?,[0-9a-f]+\.[0-9a-f]+,\d+,)'
)
"""Of a line, up to the number within the session: no text that it quotes begins so."""
_DURATION = re.compile(r"[^\d\n]*\d+\.\d{3}(?!\d)")
"""A message that begins with a duration: no other has three decimals in its first number."""
_PLAN = re.compile(r"[^\n]*:\n")
"""A message of auto_explain, whose first line ends with a colon."""
_SUCCESS = ("00000", "")
"""Codes of messages that are no errors; jsonlog leaves the code out."""
_NOT_EXECUTED = ("PARSE", "BIND")
"""Tags of lines about a statement that is executed afterwards."""


class LogLine(Struct, frozen=True):
    """A statement that a session has executed."""

    session: str
    number: int
    role: str
    application: str
    tag: str
    """Of the command: SELECT, BEGIN …"""
    transaction: str
    """The virtual transaction; NUMBER/0 outside of one."""
    statement: str
    """Its id, 0 if it is not known."""


class Period(Struct, frozen=True):
    """A time from the first text to the last, as the log has them."""

    first: str
    last: str


class LogRead(Struct):
    """The account of the lines that were read."""

    damaged: int = 0
    last: str = ""
    """The time of the last line, of the period or not."""
    cut: bool = False
    """True if a part of a file was passed over."""

    def add(self, other: LogRead) -> None:
        """Add the lines of another file."""
        self.damaged += other.damaged
        self.last = max(self.last, other.last)
        self.cut |= other.cut


class _JsonLine(Struct):
    timestamp: str = ""
    user: str = ""
    dbname: str = ""
    session_id: str = ""
    line_num: int = 0
    ps: str = ""
    vxid: str = ""
    state_code: str = ""
    message: str = ""
    statement: str | None = None
    application_name: str = ""
    query_id: int = 0


_JSON = msgspec.json.Decoder(_JsonLine)


def executed_in(path: Path, database: str, period: Period, read: LogRead) -> Iterator[LogLine]:
    """Yield the statements of a database that a file has of a period; ``read`` is the account.
    Raises OSError."""
    with open_named(path) as file:
        if (length := os.fstat(file.fileno()).st_size) > BYTES_MAX:
            file.seek(length - BYTES_MAX)
            read.cut = True
        for record in _records(file):
            at = _time_of(record)
            read.last = max(read.last, at)
            if not period.first <= at <= period.last:
                continue
            line = _parsed(record)
            if line is None:
                read.damaged += 1
            elif line.dbname == database and _is_executed(line):
                yield LogLine(
                    line.session_id,
                    line.line_num,
                    line.user,
                    line.application_name,
                    line.ps,
                    line.vxid,
                    str(line.query_id),
                )


def has_lines(path: Path) -> bool | None:
    """Return whether the beginning of a file is csvlog or jsonlog; None if it is empty. Raises
    OSError."""
    with open_named(path) as file:
        beginning = file.read(_RECORD_BYTES_MAX)
    lines = beginning.splitlines(keepends=True)
    whole = [record for record in _records(iter(lines)) if _parsed(record) is not None]
    return bool(whole) if beginning.strip() else None


def _records(lines: Iterator[bytes] | BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a log, each with the lines of the texts that it quotes."""
    parts: list[bytes] = []
    quotes = size = 0
    for line in lines:
        if _BEGINNING.match(line):
            if parts:
                yield b"".join(parts)  # It is cut.
            parts, quotes, size = [], 0, 0
        elif not parts:
            continue
        parts.append(line)
        quotes += 0 if parts[0].startswith(b"{") else line.count(b'"')
        size += len(line)
        if quotes % 2 == 0:
            yield b"".join(parts)
        if quotes % 2 == 0 or size > _RECORD_BYTES_MAX:
            parts = []
    if parts:
        yield b"".join(parts)


def _time_of(record: bytes) -> str:
    found = _BEGINNING.match(record)
    return "" if found is None else found["time"].decode()


def _parsed(record: bytes) -> _JsonLine | None:
    """Return a line; None for one that is cut, damaged or of another format."""
    if record.startswith(b"{"):
        try:
            return _JSON.decode(record)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
    try:
        (columns,) = csv.reader([record.decode(errors="replace")], strict=True)
        if len(columns) < _COLUMNS:
            return None
        return _JsonLine(
            user=columns[1],
            dbname=columns[2],
            session_id=columns[5],
            line_num=int(columns[6]),
            ps=columns[7],
            vxid=columns[9],
            state_code=columns[12],
            message=columns[13],
            statement=columns[19] or None,
            application_name=columns[22],
            query_id=int(columns[25]),
        )
    except (csv.Error, ValueError):
        return None


def _is_executed(line: _JsonLine) -> bool:
    # Lines with a duration hide the statement; those of locks and temporary files do not.
    return (
        line.state_code in _SUCCESS
        and line.statement is None
        and line.ps not in _NOT_EXECUTED
        and _DURATION.match(line.message) is not None
        and _PLAN.match(line.message) is None
    )
