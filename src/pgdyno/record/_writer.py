"""The connection that writes a run file, and when what it writes is committed.

Any thread may call it. Rows wait in an open transaction that a thread of its own commits twice a
second, so a kill -9 loses at most the last second, and nobody who measures waits for a disk. When
the disk fills, what was committed is kept, the next caller is told once, and recording is over.
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
"""Below the promised 0.5 s by what a commit itself may take."""

ROLL_UP_S = 0.02
"""How long rolling up may keep others from writing, but for the step that it is in."""


class Writer:
    """Writes rows into the run file at ``path`` until it is closed.

    Rows are mappings of columns to values; whoever makes them knows the tables.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, started_ns: int) -> None:
        """``started_ns``: when the run began, on the monotonic clock."""
        self.path = path
        self.started_ns = started_ns
        self._db = db
        self._lock = threading.RLock()
        self._roll_up: RollUp | None = RollUp()
        self._failure: RunError | None = None
        self._told = False
        self._over = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._commit_regularly, name="pgdyno-record")
        self._thread.daemon = True
        self._thread.start()

    def at_ms(self, ns: int | None = None) -> int:
        """Milliseconds since the run's start, of monotonic ``ns`` or of now."""
        return ((time.monotonic_ns() if ns is None else ns) - self.started_ns) // 1_000_000

    @property
    def failure(self) -> RunError | None:
        """Why recording ended before its time, if it has; whoever was told of it first."""
        return self._failure

    @contextmanager
    def together(self) -> Iterator[None]:
        """No other thread writes, and nothing is committed, within the block."""
        with self._lock:
            yield

    def flush(self) -> None:
        """Commits now, so that a reader opened next sees all that was written before."""
        with self._lock:
            self._tell()
            try:
                if not self._closed.is_set():
                    self._commit()
            except sqlite3.Error as error:
                self._fail(error)
                self._tell()

    def close(self, last: Mapping[str, Any]) -> None:
        """Closes the file after ``last``, columns of the run. Raises RunError if writing had failed
        and nobody was told yet."""
        with self._lock:
            if self._closed.is_set():
                return
            self._end(last)
        self._thread.join()
        self._tell()

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Adds rows, defaults for columns not given; returns the last id, 0 if none."""
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

    def update(self, table: str, row_id: int, row: Mapping[str, Any]) -> None:
        """Changes columns of the row with the id ``row_id``."""
        if row:
            sql = f"update {table} set {', '.join(f'{name} = ?' for name in row)} where id = ?"
            values = [*map(_value, row.values()), row_id]
            self._write(lambda: self._db.execute(sql, values).rowcount)

    def _end(self, row: Mapping[str, Any]) -> None:
        """Writes the last row and makes the file one file, as far as a full disk allows."""
        sets = ", ".join(f"{name} = ?" for name in row)
        try:
            self._db.execute(f"update run set {sets}", list(row.values()))
            self._commit()
            _make_one_file(self._db)
        except sqlite3.Error as error:
            if not self._over:
                self._fail(error)
        finally:
            self._closed.set()
            self._db.close()

    def _write(self, act: Callable[[], int]) -> int:
        """Runs ``act`` in the open transaction; does nothing and gives 0 once recording is over."""
        with self._lock:
            self._tell()
            if self._over or self._closed.is_set():
                return 0
            try:
                if not self._db.in_transaction:
                    self._db.execute("begin")
                return act()
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError):
                raise  # the caller's mistake, not the disk's
            except sqlite3.Error as error:
                self._fail(error)
                self._tell()
                raise

    def _fail(self, error: sqlite3.Error) -> None:
        """Ends recording: saves what still fits, remembers the failure for the next caller."""
        self._over = True
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

    def _tell(self) -> None:
        """Raises a failure that nobody was told of, once."""
        if self._failure is not None and not self._told:
            self._told = True
            raise self._failure

    def _commit(self) -> None:
        if self._db.in_transaction:
            self._db.execute("commit")

    def _commit_regularly(self) -> None:
        while not self._closed.wait(COMMIT_EVERY_S):
            with self._lock:
                if self._over or self._closed.is_set():
                    continue
                try:
                    self._commit()
                    self._roll_up_a_little()
                except sqlite3.Error as error:
                    self._fail(error)

    def _roll_up_a_little(self) -> None:
        """A row that cannot be merged costs room in the file; it must not end the recording."""
        if self._roll_up is None:
            return
        enough_s = time.monotonic() + ROLL_UP_S
        try:
            while self._roll_up.catch_up(self._db, self.at_ms()) and time.monotonic() < enough_s:
                pass
        except sqlite3.Error:
            raise
        except Exception as error:
            self._roll_up = None
            row = {"at_ms": self.at_ms(), "kind": "warning", "label": "run file not rolled up"}
            self.insert("event", [{**row, "detail_json": json.dumps({"error": str(error)})}])


def _make_one_file(db: sqlite3.Connection) -> None:
    """Folds the -wal file into the main one and leaves WAL mode, if no reader is in the way."""
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
    """``value`` as SQLite stores it; numbers of psycopg and numpy become plain ones."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    if hasattr(value, "item"):
        return value.item()
    raise ValueError(f"{type(value).__name__} cannot be stored in a run file")
