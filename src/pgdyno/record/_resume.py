"""Resuming a run file whose recording ended before the run did: by kill -9, a restart of the
machine, or a stop.

Time goes on by the wall clock. The slice that was open is closed where its last interval ended,
what was then under way is counted as cancelled, and the time since is an event, ``gap``.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from pgdyno.errors import SetupError, UsageError
from pgdyno.numbers import duration
from pgdyno.record import fileformat
from pgdyno.record._reader import RunFile
from pgdyno.record._recorder import Recorder
from pgdyno.record._writer import Writer
from pgdyno.record.opening import is_run_file

GAP = "gap"
"""Kind of the event."""
_TIMED = {"interval": "at_ms + duration_ms", "event": "at_ms", "slice": "started_ms",
          "metric_age": "at_ms", "wait_sample": "at_ms"}  # fmt: skip


class Continuation(Struct, frozen=True):
    """A run file of ``command`` that can be continued."""

    path: Path

    @classmethod
    def of(cls, path: Path, command: str) -> Continuation:
        """Return the continuation of ``path``. UsageError if it is of another command or if it is
        being recorded."""
        with RunFile(path) as run:
            info = run.run
        if info.command != command:
            raise UsageError(
                f"{path} is the run file of pgdyno {info.command}, not of pgdyno {command}",
                code="not-to-continue",
                hint="name another run file with -o",
            )
        if info.status == "running":
            raise _busy(path)
        return cls(path)

    def spec_with(self, fields: Mapping[str, object]) -> dict[str, object]:
        """Return the recorded spec with duration and limits of the one that goes on."""
        with RunFile(self.path) as run:
            return {**run.run.spec, **{name: fields[name] for name in ("load", "metrics")}}

    def open(self) -> Recorder:
        """Return a recorder that goes on with the file. SetupError if it cannot be written."""
        try:
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = normal")
            db.execute("begin immediate")
            _check_free(db, self.path)
            started_ns, gap_ms = _close_open_end(db)
            texts = dict(db.execute("select text, id from statement"))
            db.execute("commit")
        except sqlite3.Error as error:
            raise SetupError(
                f"cannot write the run file {self.path}: {error}",
                code="run-file-unwritable",
                hint="it must be writable, on a disk with free space, to be continued",
            ) from error
        recorder = Recorder(Writer(self.path, db, started_ns), statement_ids=texts)
        from_ms, to_ms = gap_ms
        recorder.add_event(
            GAP,
            f"not recorded for {duration((to_ms - from_ms) / 1000)}",
            ns=started_ns + from_ms * 1_000_000,
            duration_ms=to_ms - from_ms,
        )
        return recorder


def discard_beginning(path: Path) -> bool:
    """Remove a file of this user that became no run file, since pgdyno was killed while it made it;
    return whether ``path`` was one.

    Such a file is empty, or has the application ID and no table. UsageError if it is being made.
    """
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        return False
    if status.st_size and (not is_run_file(path) or _has_run(path)):
        return False
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=1)) as db:
            db.execute("begin immediate")  # It rolls back what was not committed.
            ((tables,),) = db.execute("select count(*) from sqlite_schema")
            db.execute("rollback")
    except sqlite3.OperationalError as problem:
        if "locked" in str(problem):
            raise _busy(path) from None
        return False
    except sqlite3.Error:
        return False
    if not tables:
        path.unlink()
    return not tables


def _has_run(path: Path) -> bool:
    """Return whether there is a run in the file, which others may be writing."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            return bool(db.execute("select count(*) from run").fetchone()[0])
    except sqlite3.Error:
        return False


def _busy(path: Path) -> UsageError:
    return UsageError(
        f"{path} is being recorded",
        code="run-file-busy",
        hint="another pgdyno writes it; stop that one first",
    )


def _check_free(db: sqlite3.Connection, path: Path) -> None:
    """Raise UsageError if another pgdyno has gone on with the file meanwhile."""
    ((status, writer),) = db.execute("select status, writer_json from run")
    if status == "running" and fileformat.writer_lives(json.loads(writer), path):
        db.close()
        raise _busy(path)


def _close_open_end(db: sqlite3.Connection) -> tuple[int, tuple[int, int]]:
    """Close what was open; return the run's start on the monotonic clock of now, and from when to
    when nothing was recorded."""
    ((started_unix_ms,),) = db.execute("select started_unix_ms from run")
    last_ms = max(
        int(db.execute(f"select coalesce(max({at}), 0) from {table}").fetchone()[0])
        for table, at in _TIMED.items()
    )
    # A clock that was set back must not let time go back.
    now_ms = max(time.time_ns() // 1_000_000 - started_unix_ms, last_ms + 1)
    _cancel_backlog(db)
    db.execute(
        "update slice set ended_ms = max(started_ms, coalesce((select cast(max("
        "at_ms + duration_ms) as integer)"
        " from interval where slice_id = slice.id), started_ms)) where ended_ms is null"
    )
    db.execute(
        "update run set status = 'running', status_detail = '', ended_ms = null, writer_json = ?",
        [json.dumps(fileformat.writer_identity())],
    )
    return time.monotonic_ns() - now_ms * 1_000_000, (last_ms, now_ms)


def _cancel_backlog(db: sqlite3.Connection) -> None:
    """Count as cancelled what waited or ran when recording ended, since its end is not known."""
    db.execute(
        "update interval set cancelled = cancelled + backlog, backlog = 0 where rowid in ("
        " select id from (select rowid as id, row_number() over ("
        "  partition by client_group, script order by at_ms desc, rowid desc) as from_last"
        " from interval) where from_last = 1)"
    )
