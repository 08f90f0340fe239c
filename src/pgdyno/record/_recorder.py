"""Recorder of a run; :class:`~pgdyno.record._writer.Writer` writes its rows. Thread-safe."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import asdict

from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.record import fileformat
from pgdyno.record._interval_rows import Cells, interval_rows
from pgdyno.record._kinds import SliceKind
from pgdyno.record._rows import LockLink
from pgdyno.record._writer import Writer
from pgdyno.record.plain import plain, storable
from pgdyno.record.reserving import reserve, take
from pgdyno.redact import blank

if TYPE_CHECKING:
    from pgdyno._engine import Interval
    from pgdyno.record.cut import Cut
    from pgdyno.record.finding import Finding

UNFINISHED = "recording was closed before it was finished"


class Listener(Protocol):
    """Receiver of what is recorded, at once and in the recording thread: it only takes note."""

    def interval(self, interval: Interval) -> None:
        """Take note of an interval from the load engine."""

    def rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take note of the rows of one sampling, possibly none."""


CURRENT: Any = object()
"""As a slice_id: the slice that is open now."""


class Recorder:
    """Writer of one run file from ``Recorder.create`` to ``finish``.

    As a context manager it is closed at the end; a run not finished by then is marked interrupted.
    """

    def __init__(self, writer: Writer, *, statement_ids: dict[str, int] | None = None) -> None:
        """``statement_ids``: those of texts that are in the file already."""
        self._writer = writer
        self._slice_id: int | None = None
        self._statement_ids: dict[str, int] = statement_ids or {}
        self._link_ids: dict[tuple[LockLink, int | None], int] = {}
        self._drills = 0
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Have ``listener`` take note of all that is recorded from now on."""
        self._listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """Have ``listener`` take note of nothing more."""
        self._listeners.remove(listener)

    @property
    def path(self) -> Path:
        """The run file."""
        return self._writer.path

    @property
    def started_ns(self) -> int:
        """Start of the run on the monotonic clock."""
        return self._writer.started_ns

    @classmethod
    def create(
        cls,
        path: Path | str,
        *,
        name: str,
        command: str,
        spec_text: str = "",
        spec: Mapping[str, object] | None = None,
        server: Mapping[str, object] | None = None,
        host: Mapping[str, object] | None = None,
        engine: Mapping[str, object] | None = None,
    ) -> Recorder:
        """Create a run file at ``path``, with missing parent directories.

        ``command`` is 'run', 'compare', 'investigate' or 'drill'. Raises UsageError if the file
        exists, SetupError if it cannot be written. Passwords are blanked everywhere.
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
            return cls(Writer(path, _new_database(path, row), started_ns))
        except sqlite3.Error as error:
            path.unlink(missing_ok=True)
            raise SetupError(
                f"cannot write the run file {path}: {error}",
                code="run-file-unwritable",
                hint="free some space there, or name another file with -o",
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
        """Return milliseconds since the run's start, of monotonic ``ns`` or of now."""
        return self._writer.at_ms(ns)

    @property
    def current_slice(self) -> int | None:
        """The slice of samples and events for which no other is given."""
        return self._slice_id

    @property
    def failure(self) -> RunError | None:
        """The error that ended recording prematurely, if any, whether or not it was raised."""
        return self._writer.failure

    def set_slice(self, slice_id: int | None) -> None:
        """Set the slice of subsequent samples and events; None for none."""
        self._slice_id = slice_id

    def add_interval(self, interval: Interval) -> None:
        """Add an interval from the load engine's ``poll``; its tag is the slice."""
        rows = interval_rows(interval, self.at_ms(interval["started_ns"]))
        with self._writer.together():
            for table, table_rows in rows.items():
                self._writer.insert(table, table_rows)
        for listener in self._listeners:
            listener.interval(interval)

    def add_rows(
        self,
        table: str,
        rows: Iterable[Mapping[str, object]],
        *,
        ns: int | None = None,
        slice_id: int | None = CURRENT,
    ) -> None:
        """Add rows of one sampling, taken at monotonic ``ns`` (now if None), to ``table``.

        A column left out is NULL; an unknown table or column raises ValueError.
        """
        common = {
            "at_ms": self.at_ms(ns),
            "slice_id": self._slice_id if slice_id is CURRENT else slice_id,
        }
        added = [_row(table, row) for row in rows]
        self._writer.insert(table, [common | row for row in added])
        for listener in self._listeners:
            listener.rows(table, added)

    def statement_id(self, text: str) -> int:
        """Return the id of a statement's text, used in wait_sample."""
        text = storable(blank(text))
        with self._writer.together():
            if text not in self._statement_ids:
                self._statement_ids[text] = self._writer.insert("statement", [{"text": text}])
            return self._statement_ids[text]

    def lock_link_id(self, link: LockLink, ahead_id: int | None) -> int:
        """Return the id of a link that waits for another one, or for the blocker of its queue."""
        with self._writer.together():
            if (link, ahead_id) not in self._link_ids:
                row: dict[str, object] = {"ahead_id": ahead_id} | asdict(link)
                text = row.pop("statement")
                row["statement_id"] = self.statement_id(str(text)) if text else None
                self._link_ids[link, ahead_id] = self._writer.insert("lock_link", [row])
            return self._link_ids[link, ahead_id]

    def add_event(
        self,
        kind: str,
        label: str,
        detail: Mapping[str, object] | None = None,
        *,
        ns: int | None = None,
        duration_ms: float | None = None,
    ) -> None:
        """Add an event at monotonic ``ns`` (now if None)."""
        row = {"kind": kind, "label": label, "duration_ms": duration_ms, "detail": detail or {}}
        self.add_rows("event", [row], ns=ns)

    def open_slice(
        self,
        kind: SliceKind,
        *,
        trial_id: int | None = None,
        pair: int | None = None,
        side: str | None = None,
        change: Mapping[str, object] | None = None,
        ns: int | None = None,
    ) -> int:
        """Begin a slice at monotonic ``ns`` (now if None), make it current, and return its id."""
        row: Cells = {"kind": kind, "trial_id": trial_id, "pair": pair, "side": side}
        row |= {"change": change or {}, "started_ms": self.at_ms(ns)}
        slice_id = self._writer.insert("slice", [_row("slice", row)])
        self.set_slice(slice_id)
        return slice_id

    def close_slice(self, slice_id: int, *, ns: int | None = None) -> None:
        """End a slice at monotonic ``ns`` (now if None); it is no longer the current one."""
        self._update("slice", slice_id, {"ended_ms": self.at_ms(ns)})
        if self._slice_id == slice_id:
            self.set_slice(None)

    def void_slice(self, slice_id: int, why: str) -> None:
        """Mark a slice as void, with the reason."""
        self._update("slice", slice_id, {"void": why})

    def add_finding(self, finding: Finding) -> int:
        """Add a finding and return the id of its row."""
        row = finding.to_json()
        row["finding"] = row.pop("id")
        return self._writer.insert("finding", [_row("finding", row)])

    def update_finding(self, finding_id: int, **columns: Any) -> None:
        """Change columns of a finding."""
        self._update("finding", finding_id, columns)

    def add_trial(self, **columns: Any) -> int:
        """Add a row of table trial; ``change`` may be an object."""
        return self._writer.insert("trial", [_row("trial", columns)])

    def update_trial(self, trial_id: int, **columns: Any) -> None:
        """Change columns of a trial."""
        self._update("trial", trial_id, columns)

    def add_drill(self, **columns: Any) -> int:
        """Add a row of table drill; ``options`` and ``settings`` may be objects."""
        self._drills += 1
        return self._writer.insert("drill", [_row("drill", {"id": self._drills, **columns})])

    def for_drill(self) -> DrillRecorder:
        """Return a recorder for a drill within this run, on another server."""
        self._drills += 1
        return DrillRecorder(self._writer, self._drills)

    def add_cut(self, drill_id: int, cut: Cut, *, ns: int) -> None:
        """Add a cut of a drill, whose fault struck at monotonic ``ns``."""
        row = cut.to_json() | {"drill_id": drill_id, "load_ms": cut.at_ms, "at_ms": self.at_ms(ns)}
        self._writer.insert("cut", [_row("cut", row)])

    def update_run(self, **columns: Any) -> None:
        """Change columns of the run; ``server``, ``host``, ``result``, … are objects."""
        self._update("run", 1, columns)

    def flush(self) -> None:
        """Commit now, so that a reader opened next sees all that was added before."""
        self._writer.flush()

    def finish(self, status: str, detail: str = "") -> None:
        """Record how the run ended ('done', 'failed', 'interrupted', 'broken'), and close the file.

        Raises RunError if recording had failed and this was not raised yet.
        """
        row = {"status": status, "status_detail": detail, "ended_ms": self.at_ms()}
        self._writer.close(_row("run", row))

    def close(self) -> None:
        """Close the file; a run that was not finished is marked interrupted."""
        self.finish("interrupted", UNFINISHED)

    def _update(self, table: str, row_id: int, changed: Mapping[str, object]) -> None:
        self._writer.update(table, row_id, _row(table, changed))


class DrillRecorder(Recorder):
    """Recorder of a drill within the run of another command: the drill, its cuts and its events.

    The drill's load and samples are not recorded: nothing is computed from them, and they would be
    counted in the run's ledger, totals and charts. The run itself is not changed or finished.
    """

    def __init__(self, writer: Writer, drill_id: int) -> None:
        super().__init__(writer)
        self._drill_id = drill_id

    def add_drill(self, **columns: Any) -> int:
        """Add the row of this drill."""
        row = _row("drill", {"id": self._drill_id, **columns})
        return self._writer.insert("drill", [row])

    def add_rows(
        self,
        table: str,
        rows: Iterable[Mapping[str, object]],
        *,
        ns: int | None = None,
        slice_id: int | None = CURRENT,
    ) -> None:
        """Add events, with the drill's id; ignore other rows."""
        if table == "event":
            marked = [{**row, "drill_id": self._drill_id} for row in rows]
            super().add_rows(table, marked, ns=ns, slice_id=slice_id)

    def add_interval(self, interval: Interval) -> None:
        """Ignore the call."""

    def statement_id(self, text: str) -> int:
        """Return 0: samples are not recorded."""
        return 0

    def lock_link_id(self, link: LockLink, ahead_id: int | None) -> int:
        """Return 0: samples are not recorded."""
        return 0

    def update_run(self, **columns: Any) -> None:
        """Ignore the call."""

    def finish(self, status: str, detail: str = "") -> None:
        """Commit; the run continues."""
        self.flush()


def _version() -> str:
    try:
        from pgdyno._engine import build_info
    except ImportError:  # not built
        return "source"
    return build_info()["version"]


def _claim(path: Path) -> None:
    """Create the empty file, so that two runs cannot use the same one."""
    if take(path):
        return
    if path.exists():
        raise UsageError(
            f"{path} already exists",
            code="run-file-exists",
            hint="name another file with -o, or remove it first",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        reserve(path)
        take(path)
    except OSError as error:
        raise SetupError(
            f"cannot write the run file {path}: {error.strerror}",
            code="run-file-unwritable",
            hint="name a file in a writable directory with -o",
        ) from error


def _new_database(path: Path, run: Cells) -> sqlite3.Connection:
    """Create the schema and the run row, and turn on WAL mode.

    The marks of a run file are in the same transaction, so that whoever reads an interrupted one
    finds all or nothing, and before WAL mode, so that they outlast a lost -wal file.
    """
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.executescript(
            f"begin; pragma application_id = {fileformat.APPLICATION_ID};"
            f" pragma user_version = {fileformat.SCHEMA_VERSION};\n{fileformat.schema_sql()}"
        )
        marks = ", ".join("?" * len(run))
        db.execute(f"insert into run ({', '.join(run)}) values ({marks})", list(run.values()))
        db.execute("commit")
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = normal")
    except BaseException:
        db.close()
        raise
    return db


def _row(table: str, values: Mapping[str, object]) -> Cells:
    """Return ``values`` as columns of ``table``: objects as JSON, texts without passwords."""
    known = fileformat.columns().get(table)
    if known is None:
        raise ValueError(f"a run file has no table {table!r}")
    row: Cells = {}
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
