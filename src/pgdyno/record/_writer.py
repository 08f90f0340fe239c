"""Writer of the rows of a run file, and of their commits.

Any thread may call it. Rows are inserted in an open transaction, which a separate thread commits
twice a second: kill -9 loses at most the last second, and no measuring thread waits for a disk.
When the disk is full, committed rows are kept, one caller gets the error, and recording ends.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pgdyno.errors import RunError
from pgdyno.record._rollup import RollUp

COMMIT_EVERY_S = 0.4
"""Less than 0.5 s, which is promised, since a commit takes time itself."""

ROLL_UP_S = 0.02
"""Time after which no further step of a roll-up begins while other threads wait to write."""


class Writer:
    """Connection that writes to one run file until it is closed.

    Rows map columns to values; the caller knows the tables.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, started_ns: int) -> None:
        """``started_ns`` is the start of the run on the monotonic clock."""
        self.path = path
        self.started_ns = started_ns
        self._db = db
        self._lock = threading.RLock()
        self._roll_up: RollUp | None = RollUp()
        self._failure: RunError | None = None
        self._failure_raised = False
        self._ended = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._commit_regularly, name="pgdyno-record")
        self._thread.daemon = True
        self._thread.start()

    def at_ms(self, ns: int | None = None) -> int:
        """Return milliseconds since the run's start, of monotonic ``ns`` or of now."""
        return ((time.monotonic_ns() if ns is None else ns) - self.started_ns) // 1_000_000

    @property
    def failure(self) -> RunError | None:
        """The error that ended recording prematurely, if any, whether or not it was raised."""
        return self._failure

    @contextmanager
    def together(self) -> Iterator[None]:
        """Within the block, no other thread writes, and nothing is committed."""
        with self._lock:
            yield

    def flush(self) -> None:
        """Commit now, so that a reader opened next sees all earlier rows."""
        with self._lock:
            self._raise_failure()
            try:
                if not self._closed.is_set():
                    self._commit()
            except sqlite3.Error as error:
                self._fail(error)
                self._raise_failure()

    def close(self, last: Mapping[str, object]) -> None:
        """Set the columns ``last`` of the run, and close the file. Raises RunError if writing had
        failed and this was not raised yet."""
        with self._lock:
            if self._closed.is_set():
                return
            self._end(last)
        self._thread.join()
        self._raise_failure()

    def insert(self, table: str, rows: Sequence[Mapping[str, object]]) -> int:
        """Insert rows, with defaults for omitted columns; return the last id, or 0."""
        statements = [
            (_insertion(table, tuple(row)), [_value(value) for value in row.values()])
            for row in rows
        ]

        def insert() -> int:
            last = 0
            for sql, values in statements:
                last = self._db.execute(sql, values).lastrowid or 0
            return last

        return self._write(insert) if statements else 0

    def update(self, table: str, row_id: int, row: Mapping[str, object]) -> None:
        """Set columns of the row with the id ``row_id``."""
        if row:
            sql = f"update {table} set {', '.join(f'{name} = ?' for name in row)} where id = ?"
            values = [*map(_value, row.values()), row_id]
            self._write(lambda: self._db.execute(sql, values).rowcount)

    def _end(self, row: Mapping[str, object]) -> None:
        """Update the run and remove the -wal file, if the disk has space for that."""
        sets = ", ".join(f"{name} = ?" for name in row)
        try:
            self._db.execute(f"update run set {sets}", list(row.values()))
            self._commit()
            _make_one_file(self._db)
        except sqlite3.Error as error:
            if not self._ended:
                self._fail(error)
        finally:
            self._closed.set()
            self._db.close()

    def _write(self, act: Callable[[], int]) -> int:
        """Call ``act`` in the open transaction; after the end of recording, only return 0."""
        with self._lock:
            self._raise_failure()
            if self._ended or self._closed.is_set():
                return 0
            try:
                if not self._db.in_transaction:
                    self._db.execute("begin")
                return act()
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError):
                raise  # an error of the caller, not of the disk
            except sqlite3.Error as error:
                self._fail(error)
                self._raise_failure()
                raise

    def _fail(self, error: sqlite3.Error) -> None:
        """End recording: commit what still fits, and keep the failure for the next caller."""
        self._ended = True
        self._failure = RunError(
            f"cannot write the run file {self.path}: {error}",
            code="run-file-unwritable",
            hint="what was recorded until then is kept; free some space and run again",
        )
        try:
            self._commit()
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("rollback")

    def _raise_failure(self) -> None:
        """Raise the failure of recording, unless it was raised before."""
        if self._failure is not None and not self._failure_raised:
            self._failure_raised = True
            raise self._failure

    def _commit(self) -> None:
        if self._db.in_transaction:
            self._db.execute("commit")

    def _commit_regularly(self) -> None:
        while not self._closed.wait(COMMIT_EVERY_S):
            with self._lock:
                if self._ended or self._closed.is_set():
                    continue
                try:
                    self._commit()
                    self._advance_roll_up()
                except sqlite3.Error as error:
                    self._fail(error)

    def _advance_roll_up(self) -> None:
        """Roll up for a short time; an error of merging stops the roll-up, not the recording."""
        if self._roll_up is None:
            return
        deadline_s = time.monotonic() + ROLL_UP_S
        try:
            while self._roll_up.catch_up(self._db, self.at_ms()) and time.monotonic() < deadline_s:
                pass
        except sqlite3.Error:
            raise
        except Exception as error:
            self._roll_up = None
            row = {"at_ms": self.at_ms(), "kind": "warning", "label": "run file not rolled up"}
            self.insert("event", [{**row, "detail_json": json.dumps({"error": str(error)})}])


def _make_one_file(db: sqlite3.Connection) -> None:
    """Copy the -wal file into the main file and leave WAL mode, if no reader prevents it."""
    try:
        db.execute("pragma wal_checkpoint(truncate)")
        db.execute("pragma journal_mode = delete")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise


@cache
def _insertion(table: str, names: tuple[str, ...]) -> str:
    return f"insert into {table} ({', '.join(names)}) values ({', '.join('?' * len(names))})"


def _value(value: Any) -> Any:
    """Return ``value`` as SQLite stores it; numbers of psycopg and numpy become built-in ones."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    if hasattr(value, "item"):
        return value.item()
    raise ValueError(f"{type(value).__name__} cannot be stored in a run file")
