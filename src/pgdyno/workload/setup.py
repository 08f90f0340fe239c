"""The user's setup: an SQL file, or a dump by pg_dump, that is executed once before the load.

A file without rows is sent as it is. One with the rows of COPY … FROM stdin is sent statement by
statement (_pieces.py), as the SQL of an archive is (_archives.py). Its rows are the user's data: a
run file has the digest of the file, and not its text. It may be in any encoding that it sets. Rows
that ``\\rows`` makes up are nobody's data.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from msgspec import Struct

from pgdyno.errors import SetupError, UsageError
from pgdyno.files import is_special, open_named
from pgdyno.server import ConnInfo, connect, connect_plain
from pgdyno.server.local.owner import OWNER
from pgdyno.workload._analyzing import analyze_filled
from pgdyno.workload._archives import archive_digest, is_archive, restored
from pgdyno.workload._files import read_text, unreadable
from pgdyno.workload._pieces import STATEMENT_BYTES_MAX, SetupStatement, lines_of, statements
from pgdyno.workload.table_space import TableSpace

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

    import psycopg

    from pgdyno._engine import MadeRows
    from pgdyno.spec.workload import WorkloadSpec

_OF_DUMP = re.compile(rb"\\|stdin", re.IGNORECASE)
"""Text without it has no rows, and no command of psql."""
_RESTRICTED = re.compile(r"^\\(?:un)?restrict[ \t]", re.MULTILINE)
_OWNERS = re.compile(
    r"\b(?:owner\s+to|grant|revoke|default\s+privileges|session\s+authorization)\b", re.IGNORECASE
)
_SETS = re.compile(r"(?:\s|--[^\n]*\n)*set\s", re.IGNORECASE)
_UNDEFINED_OBJECT = "42704"
_DENIED = "42501"
_ROWS = re.compile(r"\\rows\s+(\d+)\s")
_ROW_BYTES = 28
"""Of a row in its page, beside its columns: header and pointer."""
_SAMPLE_BYTES = 1 << 13
_SEED = 1
"""Of random values in rows that are made: the same with each repetition."""
_PIECE_BYTES = 1 << 18
Variables: TypeAlias = "list[tuple[str, str]]"
"""Names and values."""


class Setup(Struct, frozen=True):
    """A setup as a run file has it: its text or, if it has rows, the digest of its file."""

    file: str
    text: str | None = None
    sha256: str | None = None

    @classmethod
    def of(cls, workload: WorkloadSpec) -> Setup:
        """Read the setup of a workload that has one.

        Raises UsageError for a file that cannot be read or has commands of psql, for rows that
        cannot be made, and for a file of which a run file has another digest.
        """
        assert workload.setup is not None
        file, text, known = workload.setup, workload.setup_text, workload.setup_sha256
        if text is None and is_special(_path(file)):
            text = read_text(file, "setup")
            if _has_rows(file, _lines_of_text(file, text)):
                raise UsageError(
                    f"the setup {file} has rows, and can be read only once: it is a pipe",
                    code="setup-file",
                    hint="write it to a file, and name that",
                )
        if text is None:
            digest = _digest_with_rows(file)
            if known not in (None, digest):
                raise changed(file)
            if digest:
                return cls(file, sha256=digest)
            text = read_text(file, "setup")
        _check_made(file, text, _variables(workload))
        return cls(file, text)

    @property
    def digest(self) -> str:
        """The SHA-256 of its statements."""
        return self.sha256 or hashlib.sha256((self.text or "").encode()).hexdigest()

    @property
    def fields(self) -> dict[str, str | None]:
        """The keys of a workload that stand for it."""
        return {"setup_text": self.text, "setup_sha256": self.sha256}


def space_of_made(workload: WorkloadSpec) -> TableSpace | None:
    """Return the space for the rows that the setup of ``workload`` makes, by the first ones of each
    table, without indexes; None if it makes none. Raises UsageError."""
    file, text = workload.setup, workload.setup_text
    if file is None or text is None or not _OF_DUMP.search(text.encode()):
        return None
    total = 0.0
    for each in statements(file, _lines_of_text(file, text)):
        if each.made is not None and (rows := _ROWS.search(each.made)):
            first = _made(file, each.made, _variables(workload)).piece(_SAMPLE_BYTES) or b"\n"
            total += int(rows[1]) * (len(first) / first.count(b"\n") + _ROW_BYTES)
    needed = int(total)
    return TableSpace(None, needed, needed, what=f"the rows of {file}") if needed else None


def run_setup(conninfo: ConnInfo, workload: WorkloadSpec, *, ours: bool) -> None:
    """Execute the setup of ``workload`` in a single transaction like ``psql -1 -f``; on a server of
    ``ours``, tables are vacuumed and analyzed if rows came by COPY.

    Raises UsageError if it cannot be read, SetupError with file and line if a statement fails.
    """
    assert workload.setup is not None
    if workload.setup_sha256 is not None:  # It is compared with that of the lines sent.
        setup = Setup(workload.setup, sha256=workload.setup_sha256)
    else:
        setup = Setup.of(workload)
    if setup.text is not None and not _is_dump(setup.file, setup.text):
        _run_as_it_is(conninfo, setup.file, setup.text)
        return
    with connect_plain(conninfo) as conn:
        copied = _Sending(conn, setup, _variables(workload)).send()
    if copied and ours:
        with connect(conninfo) as own:
            analyze_filled(own)


def _digest_with_rows(file: str) -> str | None:
    """Return the SHA-256 of a file with rows or of an archive; None for a file without rows."""
    path, read = _path(file), hashlib.sha256()
    try:
        if is_archive(path):
            return archive_digest(path)
        with open_named(path) as source:
            if not any(map(_OF_DUMP.search, _read_lines(file, source))):
                return None
        with open_named(path) as source:
            has_rows = _has_rows(file, _read_lines(file, source, read))
    except OSError as error:
        raise unreadable(file, "setup", error) from None
    return read.hexdigest() if has_rows else None


def _has_rows(file: str, lines: Iterable[bytes]) -> bool:
    """Read all statements; return whether rows follow one. Raises UsageError for commands of
    psql."""
    return bool([each for each in statements(file, lines) if each.rows is not None])


def _is_dump(file: str, text: str) -> bool:
    """Return whether a text is to be sent statement by statement. Raises UsageError as
    :func:`_has_rows` does."""
    if not _OF_DUMP.search(text.encode()):
        return False
    read = [*statements(file, _lines_of_text(file, text))]
    has_rows = any(each.rows is not None or each.made is not None for each in read)
    return has_rows or _RESTRICTED.search(text) is not None


def _check_made(file: str, text: str, variables: Variables) -> None:
    """Raise UsageError if rows of a setup cannot be made."""
    if _OF_DUMP.search(text.encode()):
        for each in statements(file, _lines_of_text(file, text)):
            if each.made is not None:
                _made(file, each.made, variables)


def _variables(workload: WorkloadSpec) -> Variables:
    """Return the variables that a script has from the start."""
    given = {"scale": workload.scale, **workload.variables}
    return [(name, str(value)) for name, value in given.items()]


def _made(file: str, script: str, variables: Variables) -> MadeRows:
    """Return the rows that a script makes. Raises UsageError."""
    from pgdyno._engine import MadeRows

    with _script_errors():
        return MadeRows(script, file, variables, _SEED)


@contextmanager
def _script_errors() -> Iterator[None]:
    from pgdyno._engine import ScriptError

    try:
        yield
    except ScriptError as error:
        raise UsageError(error.message, code="setup-rows", hint=error.hint) from None


def changed(file: str) -> UsageError:
    """Return the error for a file that is not the one with which a run was recorded."""
    return UsageError(
        f"the setup {file} is not the file of the run any more: it has changed",
        code="setup-changed",
        hint="the rows of a dump are not recorded; restore the file, or name another in a spec",
    )


def _run_as_it_is(conninfo: ConnInfo, file: str, text: str) -> None:
    import psycopg

    with connect_plain(conninfo) as conn:
        try:
            conn.execute(text.encode())
        except psycopg.Error as problem:
            at = problem.diag.statement_position
            place = f"{file}:{_line_at(text, at)}" if at else file
            raise _failed(place, problem, text if at is None else "", conn.info) from None


def _line_at(text: str, position: str) -> int:
    """Return the number of the line, from 1, of a position in a text."""
    return text.count("\n", 0, int(position)) + 1


def _failed(
    place: str, problem: psycopg.Error, sql: str, within: psycopg.ConnectionInfo
) -> SetupError:
    """Return the error for the server's message about ``sql``, the part that failed."""
    message = (problem.diag.message_primary or str(problem)).strip()
    hint = f"the setup runs in one transaction in the database {within.dbname}; it was rolled back"
    if problem.sqlstate == _DENIED and within.user == OWNER:
        hint = (
            f"the role {OWNER} owns the database and has no other rights; where you trust the"
            " setup, import it as a spec, and set workload.superuser = true"
        )
    if problem.sqlstate == _UNDEFINED_OBJECT:
        if _SETS.match(sql):
            hint = (
                "the file is by a pg_dump that is newer than the server: start a server as new as"
                " that (--pg-version), or make the file with an older pg_dump"
            )
        elif _OWNERS.search(sql):
            hint = (
                "owners and privileges are not needed for a load: pg_dump --no-owner"
                " --no-privileges leaves them out"
            )
    return SetupError(f"{place}: {message}", code="setup-failed", hint=hint)


class _Sending:
    """The statements and rows of a setup on their way to the server."""

    def __init__(self, conn: psycopg.Connection, setup: Setup, variables: Variables) -> None:
        self._conn = conn
        self._setup = setup
        self._variables = variables
        self._archive = setup.sha256 is not None and is_archive(_path(setup.file))
        self._copied = False

    def send(self) -> bool:
        """Send all of it; return whether there were rows. Raises SetupError, UsageError."""
        import psycopg

        self._conn.execute("begin")
        with _lines(self._setup, self._conn.info.server_version // 10_000) as (lines, digest):
            for statement in statements(self._setup.file, lines):
                self._send(statement)
        if self._setup.sha256 not in (None, digest()):
            raise changed(self._setup.file)
        try:
            self._conn.execute("commit")
        except psycopg.Error as problem:
            raise _failed(self._setup.file, problem, "", self._conn.info) from None
        return self._copied

    def _send(self, statement: SetupStatement) -> None:
        import psycopg

        try:
            if (pieces := self._rows_of(statement)) is None:
                self._conn.execute(statement.sql)
                return
            with _script_errors(), self._conn.cursor().copy(statement.sql) as copy:
                for piece in pieces:
                    self._copied = True
                    copy.write(piece)
        except psycopg.Error as problem:
            sql = statement.sql.decode("utf-8", "replace")
            place = self._place(self._line_of(problem, statement, sql))
            raise _failed(place, problem, sql, self._conn.info) from None

    def _rows_of(self, statement: SetupStatement) -> Iterator[bytes] | None:
        """Return the rows of a statement; None if it takes none."""
        if statement.made is None:
            return statement.rows
        made = _made(self._setup.file, statement.made, self._variables)
        return iter(partial(made.piece, _PIECE_BYTES), None)

    def _line_of(self, problem: psycopg.Error, statement: SetupStatement, sql: str) -> int:
        """Return the number of the line with the error: of its position, or of its row."""
        if at := problem.diag.statement_position:
            return statement.first_line + _line_at(sql, at) - 1
        if statement.table is not None and (context := problem.diag.context):
            # In every language, the name is followed by the number of the row.
            named = rf"^COPY {re.escape(statement.table)}\D+?(\d+)"
            if row := re.search(named, context, re.MULTILINE):
                return statement.rows_line + int(row[1]) - 1
        return statement.line

    def _place(self, line: int) -> str:
        if self._archive:
            return f"{self._setup.file}, line {line} of the SQL by pg_restore"
        return f"{self._setup.file}:{line}"


@contextmanager
def _lines(setup: Setup, major: int) -> Iterator[tuple[Iterator[bytes], Callable[[], str | None]]]:
    """Yield the lines of a setup, and a function for the digest of the file once they are read.
    Raises UsageError."""
    if setup.text is not None:
        yield _lines_of_text(setup.file, setup.text), lambda: None
        return
    path, read = _path(setup.file), hashlib.sha256()
    try:
        if is_archive(path):
            with restored(setup.file, major) as source:
                yield _read_lines(setup.file, source), partial(archive_digest, path)
        else:
            with open_named(path) as source:
                yield _read_lines(setup.file, source, read), read.hexdigest
    except OSError as error:
        raise unreadable(setup.file, "setup", error) from None


def _lines_of_text(file: str, text: str) -> Iterator[bytes]:
    return _read_lines(file, BytesIO(text.encode()))


def _read_lines(file: str, source: IO[bytes], read: Hash | None = None) -> Iterator[bytes]:
    """Yield the lines of an open file, and add them to the digest ``read``."""
    chunks = iter(partial(source.readline, STATEMENT_BYTES_MAX + 1), b"")
    return lines_of(file, chunks if read is None else _added(chunks, read))


def _added(chunks: Iterable[bytes], read: Hash) -> Iterator[bytes]:
    for chunk in chunks:
        read.update(chunk)
        yield chunk


def _path(file: str) -> Path:
    return Path(file).expanduser()
