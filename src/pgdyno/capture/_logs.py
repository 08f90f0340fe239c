"""Whole transactions from the server's log: the statements of each, in order.

Nothing that samples of sessions show is as good: with log_transaction_sample_rate the log has all
statements of the transactions that are drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from pgdyno.capture._log_lines import LogLine, LogRead, Period, executed_in, has_lines
from pgdyno.errors import UsageError
from pgdyno.numbers import counted

_SUFFIXES = (".csv", ".json")
_LINES_MAX = 2_000_000
"""Of the period, kept until they are sorted."""
_BEFORE = timedelta(hours=1)
_BEGINS = ("BEGIN", "START TRANSACTION")
_ENDS = ("COMMIT", "ROLLBACK", "PREPARE TRANSACTION")
_NO_ID = "0"
_SETTINGS = (
    "log_destination = 'csvlog' (or 'jsonlog', from PostgreSQL 15 on) and"
    " log_transaction_sample_rate = 0.01"
)


class Whole(Struct, frozen=True):
    """A transaction."""

    statements: tuple[str, ...]
    """Ids in order."""
    block: bool
    client: tuple[str, str] = ("", "")
    """Role and application."""


class LogTransactions(Struct, frozen=True):
    """The transactions of a log."""

    transactions: list[Whole]
    gaps: list[str]


def check_logs(paths: Iterable[Path]) -> None:
    """Raise UsageError for logs that cannot be read, or are of another format."""
    for path in paths:
        try:
            files = _files(path)
            found = [has_lines(each) for each in files]
        except OSError as problem:
            raise UsageError(
                f"{problem.filename or path} cannot be read: {problem.strerror}",
                code="capture-log",
                hint="--log takes files of the server's log, or its directory",
            ) from None
        if not files:
            raise UsageError(
                f"{path} has no file whose name ends with .csv or .json",
                code="capture-log",
                hint=f"the server writes them with {_SETTINGS}",
            )
        if found and False in found and True not in found:
            raise UsageError(
                f"{path} is neither csvlog nor jsonlog of PostgreSQL 14 or newer",
                code="capture-log",
                hint=f"the server writes them with {_SETTINGS}",
            )


def transactions_in(paths: Sequence[Path], database: str, period: Period) -> LogTransactions:
    """Return the transactions of a database that logs have of a period, or of the hour before their
    ends if they have none of it. Raises OSError."""
    lines, read = _lines(paths, database, period)
    gaps = []
    if not lines and "" < read.last < period.first:
        gaps.append(
            f"the log ends at {read.last}, and its last hour is taken in place of the period"
        )
        lines, read = _lines(paths, database, _hour_before(read.last))
    if read.damaged:
        number = counted(read.damaged, "line", "lines")
        gaps.append(f"{number} of the log cut or damaged, and left out")
    if read.cut:
        gaps.append("a part of a long log is passed over")
    found = [each for of_session in lines.values() for each in _transactions(of_session)]
    lacking = _lacking(found, lines.values())
    return LogTransactions([] if lacking else found, [*gaps, *lacking])


def _lacking(found: Sequence[Whole], lines: Iterable[dict[int, LogLine]]) -> list[str]:
    """Return why the transactions of a log are of no use."""
    instead = ", so that transactions are those seen in samples; the server logs them with"
    ids = [line.statement for of_session in lines for line in of_session.values()]
    if not ids:
        return [f"the log has no durations of statements of this database{instead} {_SETTINGS}"]
    if all(each == _NO_ID for each in ids):
        return [f"the log has no ids of statements{instead} compute_query_id = on"]
    if not any(each.block and each.statements for each in found):
        return [f"the log has no whole transaction blocks{instead} {_SETTINGS}"]
    return []


def _files(path: Path) -> list[Path]:
    """Return a file, or those of a directory, the newest first. Raises OSError."""
    if not path.is_dir():
        return [path]
    files = [each for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file()]
    return sorted(files, key=lambda each: -each.stat().st_mtime)


def _lines(
    paths: Sequence[Path], database: str, period: Period
) -> tuple[dict[str, dict[int, LogLine]], LogRead]:
    """Return the lines by session and number. A line that two files have is one."""
    found: defaultdict[str, dict[int, LogLine]] = defaultdict(dict)
    account, count = LogRead(), 0
    for path in paths:
        for file in _files(path):
            read = LogRead()
            for line in executed_in(file, database, period, read):
                found[line.session][line.number] = line
                count += 1
                if count >= _LINES_MAX:
                    read.cut = True
                    break
            account.add(read)
            if count >= _LINES_MAX or (path.is_dir() and "" < read.last < period.first):
                break  # Files of a directory that are older end before it too.
    return found, account


def _hour_before(last: str) -> Period:
    try:
        first = datetime.fromisoformat(last) - _BEFORE
    except (ValueError, OverflowError):  # A damaged line.
        return Period("", last)
    return Period(first.isoformat(" ", "milliseconds"), last)


def _transactions(lines: dict[int, LogLine]) -> Iterator[Whole]:
    """Yield the transactions of a session, without those whose beginning or end the log does not
    have.

    Virtual transactions tell those without a block apart, which may have several statements
    (pipelines); the end of a block is outside of it already.
    """
    block: list[str] | None = None
    single: list[str] = []
    within = ""
    for number in sorted(lines):
        line = lines[number]
        client = (line.role, line.application)
        ends = line.tag in _ENDS and line.transaction != within
        if single and (line.transaction != within or _is_outside(line)):
            if not (ends and block is None):  # Else the log has only the end of its block.
                yield Whole(tuple(single), block=False, client=client)
            single = []
        if line.tag in _BEGINS:
            block = []
        elif ends:
            if block is not None:
                yield Whole(tuple(block), block=True, client=client)
            block = None if _is_outside(line) else []  # AND CHAIN
        elif block is not None and line.transaction == within:
            block.append(line.statement)
        else:
            block = None
            single.append(line.statement)
        within = line.transaction
    if single:
        yield Whole(tuple(single), block=False, client=client)


def _is_outside(line: LogLine) -> bool:
    """Return whether a line was written outside of a transaction."""
    return line.transaction.endswith("/0") or not line.transaction
