"""What is recorded of a run, in its words; :class:`~pgdyno.record._writer.Writer` writes it.

Any thread may call a recorder.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pgdyno.errors import RunError, SetupError, UsageError
from pgdyno.record import fileformat
from pgdyno.record._interval_rows import interval_rows
from pgdyno.record._writer import Writer
from pgdyno.record.plain import plain, storable
from pgdyno.redact import blank

UNFINISHED = "recording was closed before it was finished"

CURRENT: Any = object()
"""Stands for "the slice that is open now" where a slice_id is asked for."""


class Recorder:
    """Writes one run file from its creation to ``finish``. Make one with ``Recorder.create``.

    As a context manager it closes itself; a run not finished by then is marked interrupted.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._slice_id: int | None = None
        self._statement_ids: dict[str, int] = {}
        self._drills = 0

    @property
    def path(self) -> Path:
        """The run file."""
        return self._writer.path

    @property
    def started_ns(self) -> int:
        """When the run began, on the monotonic clock."""
        return self._writer.started_ns

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
            return cls(Writer(path, _new_database(path, row), started_ns))
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
        return self._writer.at_ms(ns)

    @property
    def current_slice(self) -> int | None:
        """The slice that samples and events fall into when not told otherwise."""
        return self._slice_id

    @property
    def failure(self) -> RunError | None:
        """Why recording ended before its time, if it has; whoever was told of it first."""
        return self._writer.failure

    def set_slice(self, slice_id: int | None) -> None:
        """Says what slice samples and events from now on fall into; None for none."""
        self._slice_id = slice_id

    def add_interval(self, interval: Mapping[str, Any]) -> None:
        """One interval as the load engine's ``poll`` gives it; its tag is the slice."""
        rows = interval_rows(interval, self.at_ms(interval["started_ns"]))
        with self._writer.together():
            for table, table_rows in rows.items():
                self._writer.insert(table, table_rows)

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
        self._writer.insert(table, [common | _row(table, row) for row in rows])

    def statement_id(self, text: str) -> int:
        """The number that stands for a statement's text in wait_sample."""
        text = storable(blank(text))
        with self._writer.together():
            if text not in self._statement_ids:
                self._statement_ids[text] = self._writer.insert("statement", [{"text": text}])
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
        slice_id = self._writer.insert("slice", [_row("slice", row)])
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
        return self._writer.insert("finding", [_row("finding", finding)])

    def update_finding(self, finding_id: int, **columns: Any) -> None:
        """Changes columns of a finding."""
        self._update("finding", finding_id, columns)

    def add_trial(self, **columns: Any) -> int:
        """A row of table trial; ``change`` may be an object."""
        return self._writer.insert("trial", [_row("trial", columns)])

    def update_trial(self, trial_id: int, **columns: Any) -> None:
        """Changes columns of a trial."""
        self._update("trial", trial_id, columns)

    def add_drill(self, **columns: Any) -> int:
        """A row of table drill; ``options`` and ``settings`` may be objects."""
        self._drills += 1
        return self._writer.insert("drill", [_row("drill", {"id": self._drills, **columns})])

    def for_drill(self) -> DrillRecorder:
        """For a drill within this run, on a server of its own."""
        self._drills += 1
        return DrillRecorder(self._writer, self._drills)

    def add_cut(self, cut: Mapping[str, Any], *, ns: int) -> None:
        """A row of table cut, whose fault struck at monotonic ``ns``."""
        self._writer.insert("cut", [{**_row("cut", cut), "at_ms": self.at_ms(ns)}])

    def update_run(self, **columns: Any) -> None:
        """Changes columns of the run; ``server``, ``host``, ``result``, … are objects."""
        self._update("run", 1, columns)

    def flush(self) -> None:
        """Commits now, so that a reader opened next sees all that was added before."""
        self._writer.flush()

    def finish(self, status: str, detail: str = "") -> None:
        """Marks how the run ended ('done', 'failed', 'interrupted', 'broken') and closes the file.

        Raises RunError if recording had failed and nobody was told yet.
        """
        row = {"status": status, "status_detail": detail, "ended_ms": self.at_ms()}
        self._writer.close(_row("run", row))

    def close(self) -> None:
        """Closes the file; a run that was not finished is marked interrupted."""
        self.finish("interrupted", UNFINISHED)

    def _update(self, table: str, row_id: int, changed: Mapping[str, Any]) -> None:
        self._writer.update(table, row_id, _row(table, changed))


class DrillRecorder(Recorder):
    """Records a drill in the run of another command: the drill, its cuts, and what happened.

    Its load and what probes read on its server stay out: nothing of a drill is worked out from
    them, and in the run's ledger, totals and charts they would count as the run's own. The run, its
    end included, is left to whoever began it.
    """

    def __init__(self, writer: Writer, drill_id: int) -> None:
        super().__init__(writer)
        self._drill_id = drill_id

    def add_drill(self, **columns: Any) -> int:
        """The row of this drill."""
        row = _row("drill", {"id": self._drill_id, **columns})
        return self._writer.insert("drill", [row])

    def add_rows(
        self,
        table: str,
        rows: Iterable[Mapping[str, Any]],
        *,
        ns: int | None = None,
        slice_id: int | None = CURRENT,
    ) -> None:
        """Events, which bear the drill's id."""
        if table == "event":
            marked = [{**row, "drill_id": self._drill_id} for row in rows]
            super().add_rows(table, marked, ns=ns, slice_id=slice_id)

    def add_interval(self, interval: Mapping[str, Any]) -> None:
        """Is not kept."""

    def statement_id(self, text: str) -> int:
        """Is not kept, as no sample is."""
        return 0

    def update_run(self, **columns: Any) -> None:
        """Is not kept."""

    def finish(self, status: str, detail: str = "") -> None:
        """Commits; the run goes on."""
        self.flush()


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
