"""Open run files for reading, and refuse all other files with a hint."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from pgdyno.errors import UsageError
from pgdyno.escaping import visible
from pgdyno.files import is_special
from pgdyno.record import fileformat

_INVALID = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
NOT_A_RUN_FILE = "give a file that pgdyno run, compare, investigate or drill wrote with -o"


def check_header(path: Path) -> None:
    """Refuse files that are not run files before SQLite reads them.

    A file shorter than its header's page size and count (bytes 16 and 28,
    https://sqlite.org/fileformat.html) is truncated, unless it has a -wal file.
    """
    try:
        if is_special(path):  # opening a pipe would block
            raise _foreign(f"{path} is not a regular file")
        with path.open("rb") as file:
            head = file.read(100)
        size_bytes = path.stat().st_size
    except FileNotFoundError as error:
        raise UsageError(
            f"{path} does not exist", code="run-file-missing", hint=NOT_A_RUN_FILE
        ) from error
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", code="run-file-unreadable", hint=NOT_A_RUN_FILE
        ) from error
    if head[:16] != b"SQLite format 3\0" or len(head) < 100:
        raise _foreign(f"{path} is not a run file of pgdyno")
    page_bytes = {1: 65536}.get(raw := int.from_bytes(head[16:18]), raw)
    whole_bytes = page_bytes * int.from_bytes(head[28:32])
    if size_bytes < whole_bytes and not path.with_name(path.name + "-wal").exists():
        raise damaged(path, f"{whole_bytes - size_bytes} of its {whole_bytes} bytes are missing")


def is_run_file(path: Path) -> bool:
    """Return whether ``path`` has the application ID of run files, damaged or not."""
    try:
        if is_special(path):
            return False
        with path.open("rb") as file:
            head = file.read(72)
    except (OSError, ValueError):
        return False
    return head[:6] == b"SQLite" and int.from_bytes(head[68:]) == fileformat.APPLICATION_ID


def connect(path: Path) -> sqlite3.Connection:
    """Open a read-only connection; SQLite needs immutable=1 if it cannot create its -shm file."""
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        db.execute("select count(*) from sqlite_schema").fetchone()
    except sqlite3.OperationalError:
        db.close()
        db = sqlite3.connect(f"{uri}&immutable=1", uri=True, check_same_thread=False)
        db.execute("select count(*) from sqlite_schema").fetchone()
    db.text_factory = _text
    return db


@lru_cache(maxsize=4096)
def _text(stored: bytes) -> str:
    """Decode a text for display; bytes that are not UTF-8 are escaped."""
    return visible(stored.decode("utf-8", "backslashreplace"))


def _foreign(message: str) -> UsageError:
    return UsageError(message, code="run-file-foreign", hint=NOT_A_RUN_FILE)


def damaged(path: Path, what: str) -> UsageError:
    return UsageError(
        f"{path} is damaged: {what}",
        code="run-file-damaged",
        hint="copy the file again from where it was recorded, or repeat the run; "
        "sqlite3's .recover may save a part of it",
    )


@contextmanager
def refusing_invalid(path: Path) -> Iterator[None]:
    """Within the block, errors caused by content that pgdyno does not record become a
    UsageError."""
    try:
        yield
    except _INVALID as problem:
        raise UsageError(
            f"{path}: the recorded data are invalid ({type(problem).__name__}: {problem})",
            code="run-file-nonsense",
            hint="the file is damaged, or this is a bug of pgdyno;"
            " PGDYNO_TRACEBACK=1 shows a traceback for a report",
        ) from problem


def check_marks(db: sqlite3.Connection, path: Path) -> None:
    """Refuse databases of other programs, and files of another schema version."""
    ((application_id,),) = db.execute("pragma application_id")
    if application_id != fileformat.APPLICATION_ID:
        raise _foreign(f"{path} is an SQLite database, but not a run file of pgdyno")
    ((version,),) = db.execute("pragma user_version")
    if version != fileformat.SCHEMA_VERSION:
        raise UsageError(
            f"{path} has version {version} of the schema of run files; this pgdyno reads version"
            f" {fileformat.SCHEMA_VERSION}",
            code="run-file-version",
            hint="read it with the version of pgdyno that wrote it, or measure again",
        )
