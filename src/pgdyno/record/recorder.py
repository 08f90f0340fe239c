"""The one writer of a run file.

Any thread may call it. Rows wait in an open transaction that a thread of its own commits twice a
second, so a kill -9 loses at most the last second, and nobody who measures waits for a disk. When
the disk fills, what was committed is kept, the next caller is told once, and recording is over.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.record import fileformat
from pgdyno.record.interval_rows import interval_rows
from pgdyno.record.plain import plain, storable
from pgdyno.record.rollup import RollUp
from pgdyno.redact import blank

COMMIT_EVERY_S = 0.4
"""Below the promised 0.5 s by what a commit itself may take."""

ROLL_UP_S = 0.02
"""How long rolling up may keep others from writing, but for the step that it is in."""

UNFINISHED = "recording was closed before it was finished"

CURRENT: Any = object()
"""Stands for "the slice that is open now" where a slice_id is asked for."""


class Recorder:
    """Writes one run file from its creation to ``finish``. Make one with ``Recorder.create``.

    As a context manager it closes itself; a run not finished by then is marked interrupted.
    """

    path: Path
    started_ns: int

    def __init__(self, path: Path, db: sqlite3.Connection, started_ns: int) -> None:
        self.path = path
        self.started_ns = started_ns
        self._db = db
        self._lock = threading.RLock()
        self._slice_id: int | None = None
        self._statement_ids: dict[str, int] = {}
        self._roll_up: RollUp | None = RollUp()
        self._failure: RunError | None = None
        self._told = False
        self._over = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._commit_regularly, name="pgdyno-record")
        self._thread.daemon = True
        self._thread.start()

    @classmethod
    def create(
        cls,
        path: Path | str,
        *,
        name: str,
        command: str,
        spec_text: str = "",
        spec: Mapping[str, Any] | None = None,
        server: Mapping[str, Any] | None = None,
        host: Mapping[str, Any] | None = None,
        engine: Mapping[str, Any] | None = None,
    ) -> Recorder:
        """A new run file at ``path``; missing folders above it are made.

        ``command`` is 'run', 'compare', 'investigate' or 'drill'. Raises UsageError if the file
        exists, SetupError if it cannot be written. Passwords are blanked, wherever they stand.
        """
        path = Path(path)
        facts = {"spec": spec, "server": server, "host": host, "engine": engine}
        row = _row("run", {key: value or {} for key, value in facts.items()})
        row |= {"id": 1, "name": name, "command": command, "spec_text": blank(spec_text)}
        row |= {"pgdyno_version": _version(), "status": "running"}
        row |= {"writer_json": json.dumps(fileformat.writer_identity())}
        _claim(path)
        try:
            started_ns = time.monotonic_ns()
            row["started_unix_ms"] = time.time_ns() // 1_000_000
            return cls(path, _new_database(path, row), started_ns)
        except sqlite3.Error as error:
            path.unlink(missing_ok=True)
            raise SetupError(
                f"cannot write the run file {path}: {error}",
                code="run-file-unwritable",
                hint="free some space there, or name another place with -o",
            ) from error

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def at_ms(self, ns: int | None = None) -> int:
        """Milliseconds since the run's start, of monotonic ``ns`` or of now."""
        return ((time.monotonic_ns() if ns is None else ns) - self.started_ns) // 1_000_000

    @property
    def current_slice(self) -> int | None:
        """The slice that samples and events fall into when not told otherwise."""
        return self._slice_id

    @property
    def failure(self) -> RunError | None:
        """Why recording ended before its time, if it has; whoever was told of it first."""
        return self._failure

    def set_slice(self, slice_id: int | None) -> None:
        """Says what slice samples and events from now on fall into; None for none."""
        self._slice_id = slice_id

    def add_interval(self, interval: Mapping[str, Any]) -> None:
        """One interval as the load engine's ``poll`` gives it; its tag is the slice."""
        rows = interval_rows(interval, self.at_ms(interval["started_ns"]))
        with self._lock:
            for table, table_rows in rows.items():
                self._insert(table, table_rows)

    def add_rows(
        self,
        table: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        ns: int | None = None,
        slice_id: int | None = CURRENT,
    ) -> None:
        """Rows of one sampling, taken at monotonic ``ns`` (now if None), into ``table``.

        A column left out is NULL; an unknown table or column raises ValueError.
        """
        common = {
            "at_ms": self.at_ms(ns),
            "slice_id": self._slice_id if slice_id is CURRENT else slice_id,
        }
        self._insert(table, [common | _row(table, row) for row in rows])

    def statement_id(self, text: str) -> int:
        """The number that stands for a statement's text in wait_sample."""
        text = storable(blank(text))
        with self._lock:
            if text not in self._statement_ids:
                self._statement_ids[text] = self._insert("statement", [{"text": text}])
            return self._statement_ids[text]

    def add_event(
        self,
        kind: str,
        label: str,
        detail: Mapping[str, Any] | None = None,
        *,
        ns: int | None = None,
        duration_ms: float | None = None,
    ) -> None:
        """Something that happened at monotonic ``ns`` (now if None)."""
        row = {"kind": kind, "label": label, "duration_ms": duration_ms, "detail": detail or {}}
        self.add_rows("event", [row], ns=ns)

    def open_slice(
        self,
        kind: str,
        *,
        trial_id: int | None = None,
        pair: int | None = None,
        side: str | None = None,
        change: Mapping[str, Any] | None = None,
        ns: int | None = None,
    ) -> int:
        """Begins a slice at monotonic ``ns`` (now if None), makes it current, returns its id."""
        row: dict[str, Any] = {"kind": kind, "trial_id": trial_id, "pair": pair, "side": side}
        row |= {"change": change or {}, "started_ms": self.at_ms(ns)}
        slice_id = self._insert("slice", [_row("slice", row)])
        self.set_slice(slice_id)
        return slice_id

    def close_slice(self, slice_id: int, *, ns: int | None = None) -> None:
        """Ends a slice at monotonic ``ns`` (now if None); no slice is current afterwards."""
        self._update("slice", slice_id, {"ended_ms": self.at_ms(ns)})
        self.set_slice(None)

    def void_slice(self, slice_id: int, why: str) -> None:
        """Says why a slice decides nothing."""
        self._update("slice", slice_id, {"void": why})

    def add_finding(self, finding: Mapping[str, Any]) -> int:
        """A row of table finding; ``evidence``, ``causes`` and ``remedies`` may be objects."""
        return self._insert("finding", [_row("finding", finding)])

    def update_finding(self, finding_id: int, **columns: Any) -> None:
        """Changes columns of a finding."""
        self._update("finding", finding_id, columns)

    def add_trial(self, **columns: Any) -> int:
        """A row of table trial; ``change`` may be an object."""
        return self._insert("trial", [_row("trial", columns)])

    def update_trial(self, trial_id: int, **columns: Any) -> None:
        """Changes columns of a trial."""
        self._update("trial", trial_id, columns)

    def add_drill(self, **columns: Any) -> int:
        """A row of table drill; ``options`` and ``settings`` may be objects."""
        return self._insert("drill", [_row("drill", columns)])

    def add_cut(self, cut: Mapping[str, Any], *, ns: int) -> None:
        """A row of table cut, whose fault struck at monotonic ``ns``."""
        self._insert("cut", [{**_row("cut", cut), "at_ms": self.at_ms(ns)}])

    def update_run(self, **columns: Any) -> None:
        """Changes columns of the run; ``server``, ``host``, ``result``, … are objects."""
        self._update("run", 1, columns)

    def flush(self) -> None:
        """Commits now, so that a reader opened next sees all that was added before."""
        with self._lock:
            self._tell()
            try:
                if not self._closed.is_set():
                    self._commit()
            except sqlite3.Error as error:
                self._fail(error)
                self._tell()

    def finish(self, status: str, detail: str = "") -> None:
        """Marks how the run ended ('done', 'failed', 'interrupted', 'broken') and closes the file.

        Raises RunError if recording had failed and nobody was told yet.
        """
        with self._lock:
            if self._closed.is_set():
                return
            self._end({"status": status, "status_detail": detail, "ended_ms": self.at_ms()})
        self._thread.join()
        self._tell()

    def close(self) -> None:
        """Closes the file; a run that was not finished is marked interrupted."""
        self.finish("interrupted", UNFINISHED)

    def _end(self, columns: Mapping[str, Any]) -> None:
        """Writes the last row and makes the file one file, as far as a full disk allows."""
        row = _row("run", columns)
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

    def _insert(self, table: str, rows: list[dict[str, Any]]) -> int:
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

    def _update(self, table: str, row_id: int, changed: Mapping[str, Any]) -> None:
        row = _row(table, changed)
        if row:
            sql = f"update {table} set {', '.join(f'{name} = ?' for name in row)} where id = ?"
            values = [*map(_value, row.values()), row_id]
            self._write(lambda: self._db.execute(sql, values).rowcount)

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
            self.add_event("warning", "run file not rolled up", {"error": str(error)})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pgdyno")
    except PackageNotFoundError:
        return "source"


def _claim(path: Path) -> None:
    """Makes the empty file, so that two runs can never share one."""
    if path.exists():
        raise UsageError(
            f"{path} exists already",
            code="run-file-exists",
            hint="name another file with -o, or remove it first",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite makes the files beside it with the same mode.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise SetupError(
            f"cannot write the run file {path}: {error.strerror}",
            code="run-file-unwritable",
            hint="name a place that you may write to with -o",
        ) from error


def _new_database(path: Path, run: Mapping[str, Any]) -> sqlite3.Connection:
    """The file with its schema and run row, in WAL mode.

    The marks go into the main file before WAL mode begins, so that they are there whatever becomes
    of the -wal file.
    """
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"pragma application_id = {fileformat.APPLICATION_ID}")
        db.execute(f"pragma user_version = {fileformat.SCHEMA_VERSION}")
        db.executescript(f"begin;\n{fileformat.schema_sql()}")
        places = ", ".join("?" * len(run))
        db.execute(f"insert into run ({', '.join(run)}) values ({places})", list(run.values()))
        db.execute("commit")
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = normal")
    except BaseException:
        db.close()
        raise
    return db


def _make_one_file(db: sqlite3.Connection) -> None:
    """Folds the -wal file into the main one and leaves WAL mode, if no reader is in the way."""
    try:
        db.execute("pragma wal_checkpoint(truncate)")
        db.execute("pragma journal_mode = delete")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise


def _row(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` as columns of ``table``: objects as JSON, known texts without passwords."""
    known = fileformat.columns().get(table)
    if known is None:
        raise ValueError(f"a run file has no table {table!r}")
    row: dict[str, Any] = {}
    for name, value in values.items():
        if f"{name}_json" in known:
            name = f"{name}_json"
        if name not in known:
            raise ValueError(f"table {table} has no column {name!r}")
        if name.endswith("_json") and not isinstance(value, str):
            value = json.dumps(plain(value, name))
        elif isinstance(value, str):
            value = storable(blank(value))
        row[name] = value
    return row


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
