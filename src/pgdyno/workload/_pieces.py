"""Splitting of the user's SQL into statements, and the rows that follow COPY … FROM stdin.

It reads what pg_dump writes, as psql would: a semicolon ends a statement unless it is in a string,
a quoted name, a comment, parentheses, or the body of a function (BEGIN ATOMIC … END). Rows end
with a line that is ``\\.``; or ``\\rows`` stands in place of the semicolon and makes them, with
variables by ``\\set``, as in a script. Of psql's own commands, ``\\restrict`` and
``\\unrestrict``, with which pg_dump forbids the others, are passed over; any other is refused.
Lines are read one after the other, so that memory is needed for one statement and not for the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.errors import UsageError
from pgdyno.escaping import visible_line
from pgdyno.spec.sql_text import RELATION, folded

_CHUNK_BYTES = 1 << 16
STATEMENT_BYTES_MAX = 256 << 20
_BEFORE = rb"(?<![A-Za-z0-9_$\x80-\xff])"
_TOKEN = re.compile(
    rb"(?P<line_comment>--[^\n\r]*)|(?P<comment>/\*)|(?P<whole>'[^']*'|\"[^\"]*\")"
    + rb"|(?P<escaped>%b[eE]')|(?P<string>')|(?P<name>\")" % _BEFORE
    + rb"|(?P<dollar>%b\$(?:[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$)" % _BEFORE
    + rb"|(?P<mark>[();\\])"
)
"""Pattern of the tokens that matter in most statements."""
_TOKEN_OR_WORD = re.compile(
    _TOKEN.pattern
    + rb"|(?P<word>[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*)|(?P<other>[0-9]\w*|[^\s])"
)
"""Pattern of all tokens, for statements whose words matter: COPY, and those that make functions."""
_ALONE = re.compile(
    rb"(?!\s*+(?:copy|create)\b)(?:[^'\"$\\;/-]++|-(?!-)|/(?!\*)|'[^'\\]*+')*+;\r?\n",
    re.IGNORECASE,
)
"""Pattern of a statement that is a line of its own: most of those that insert rows."""
_BEGINS = (
    (b"copy",),
    (b"create", b"function"),
    (b"create", b"procedure"),
    (b"create", b"or", b"replace", b"function"),
    (b"create", b"or", b"replace", b"procedure"),
)
"""First words of the statements whose words matter; all but the first may have BEGIN ATOMIC."""
_ENDS = {
    "escaped": re.compile(rb"\\.|''|(?P<end>')", re.DOTALL),
    "string": re.compile(rb"''|(?P<end>')"),
    "name": re.compile(rb'""|(?P<end>")'),
    "comment": re.compile(rb"(?P<begin>/\*)|(?P<end>\*/)"),
}
"""Patterns of what matters within a token of several characters."""
_SET = re.compile(rb"\\set[ \t]", re.IGNORECASE)
_MADE = re.compile(rb"\\rows[ \t]", re.IGNORECASE)
_PASSED_OVER = re.compile(rb"\\(?:un)?restrict[ \t]+\S+[ \t]*\r?\n?$")
_COMMAND = re.compile(rb"\\\S{0,30}")
_END_OF_ROWS = (b"\\.\n", b"\\.\r\n", b"\\.")
_BOM = b"\xef\xbb\xbf"
_COPIED = re.compile(rf"copy\s+(?:binary\s+)?({RELATION})", re.IGNORECASE)
_HINTS = {
    b"\\connect": "the file was made by pg_dump -C, or pg_dumpall: leave -C (--create) out, and"
    " the tables are made in the database of the load",
    b"\\.": "the rows of COPY are behind COPY … FROM stdin; and end with a line that is \\.",
}
_HINTS[b"\\c"] = _HINTS[b"\\connect"]
_HINT = (
    "a set-up is SQL, with the rows of COPY … FROM stdin as pg_dump writes them, or made by \\rows;"
    " remove the line"
)


class SetupStatement(Struct, frozen=True):
    """A statement as it is in a file, with what is before it since the last one.

    ``rows`` are the rows that follow it in the file, in chunks of whole lines; None: it takes none.
    They are read from the file before the next statement is.
    """

    sql: bytes
    first_line: int
    """Number of the line, from 1, in which ``sql`` begins."""
    line: int
    """Number of the line in which its first word is."""
    rows: Iterator[bytes] | None = None
    rows_line: int = 0
    """Number of the line of the first row."""
    table: str | None = None
    """Name of the table that takes the rows, without its schema, if it was understood."""
    made: str | None = None
    """Script that makes its rows: the variables set before, and itself, in their lines."""


def lines_of(file: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines without the mark of UTF-8 that some programs put first. Raises UsageError for
    a line that cannot be kept in memory."""
    first = True
    for line in chunks:
        if len(line) > STATEMENT_BYTES_MAX:
            raise _too_long(file)
        yield line.removeprefix(_BOM) if first else line
        first = False


def statements(file: str, lines: Iterable[bytes]) -> Iterator[SetupStatement]:
    """Yield the statements of ``lines``, each with its line end, of a file called ``file`` in
    errors. Raises UsageError for a command of psql, and for rows without an end."""
    return _Splitter(file, lines).statements()


class _Splitter:
    """The state between two lines."""

    def __init__(self, file: str, lines: Iterable[bytes]) -> None:
        self._file = file
        self._lines = iter(lines)
        self._number = 0
        self._within: str | None = None
        """The kind of the token that is not closed yet."""
        self._tag = b""
        self._nested = 0
        self._sets: dict[int, bytes] = {}
        """Lines with ``\\set``, by their numbers."""
        self._begin(1)

    def _begin(self, number: int) -> None:
        """Begin a statement in the line ``number``."""
        self._parts: list[bytes] = []
        self._bytes = 0
        self._first_line = number
        self._line: int | None = None
        self._words: list[bytes] = []
        self._pattern = _TOKEN_OR_WORD
        self._last = b""
        self._takes_rows = False
        self._depth = 0
        self._blocks = 0
        self._goes_on = False

    def statements(self) -> Iterator[SetupStatement]:
        """Yield the statements; the last may have no semicolon."""
        for line in self._read():
            fresh = self._within is None and not self._parts
            if fresh and _ALONE.fullmatch(line) and line.count(b"(") == line.count(b")"):
                yield SetupStatement(line, self._number, self._number)
                self._begin(self._number + 1)
            else:
                yield from self._statements_in(line)
        if any(self._parts):
            yield self._statement(b"")

    def _read(self) -> Iterator[bytes]:
        for line in self._lines:
            self._number += 1
            yield line

    def _statements_in(self, line: bytes) -> Iterator[SetupStatement]:
        """Yield the statements that end in ``line``, and keep the rest of it for the next one."""
        begin = at = 0
        if self._goes_on:
            # 'a' and 'b' on two lines are one string, escapes included.
            text = line.lstrip()
            self._goes_on = not text or text.startswith(b"--")
            if text.startswith(b"'"):
                self._within, at = "escaped", len(line) - len(text) + 1
        while at < len(line):
            if self._within is not None:
                at = self._leave(line, at)
                continue
            found = self._pattern.search(line, at)
            if found is None:
                break
            at = found.end()
            if found[0] == b"\\":
                before = line[begin : found.start()]
                if self._takes_rows and _MADE.match(line, found.start()):
                    yield self._made(before, self._whole(line)[found.start() :])
                    self._begin(self._number + 1)
                    return
                lines = 1
                if self._line is None and _SET.match(line, found.start()):
                    number, command = self._number, self._whole(line[found.start() :])
                    self._sets[number] = command
                    lines = max(1, command.count(b"\n"))
                else:
                    self._check_command(line, found.start())
                line = line[: found.start()] + b"\n" * lines
                break
            if self._ends_statement(found):
                statement = self._statement(line[begin:at])
                if statement.rows is not None:
                    self._check_rest(line[at:])
                    yield statement
                    for _ in statement.rows:
                        pass
                    self._begin(self._number + 1)
                    return
                yield statement
                self._begin(self._number)
                begin = at
        self._keep(line[begin:])

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._bytes += len(part)
        if self._bytes > STATEMENT_BYTES_MAX:
            raise _too_long(self._file)

    def _leave(self, line: bytes, at: int) -> int:
        """Return the end of the open token, or the end of the line."""
        if self._within == "dollar":
            end = line.find(self._tag, at)
            if end < 0:
                return len(line)
            self._within = None
            return end + len(self._tag)
        assert self._within is not None
        for found in _ENDS[self._within].finditer(line, at):
            if self._within == "comment":
                self._nested += 1 if found["begin"] else -1
                if self._nested:
                    continue
            elif not found["end"]:
                continue
            rest = line[found.end() :].strip()
            self._goes_on = self._within == "escaped" and (not rest or rest.startswith(b"--"))
            self._within = None
            return found.end()
        return len(line)

    def _ends_statement(self, found: re.Match[bytes]) -> bool:
        """Take a token into account; return whether it is the end of the statement."""
        kind, token = found.lastgroup, found[0]
        if kind == "line_comment":
            return False
        if kind == "comment":
            self._within, self._nested = kind, 1
            return False
        self._line = self._line or self._number
        if kind in ("escaped", "string", "name"):
            self._within = kind
        elif kind == "dollar":
            self._within, self._tag = kind, token
        elif kind == "word":
            self._take_word(token.lower())
            return False
        elif token == b"(":
            self._depth += 1
        elif token == b")":
            self._depth = max(0, self._depth - 1)
        elif token == b";":
            return self._depth == 0 and self._blocks == 0
        self._last = b""
        return False

    def _take_word(self, word: bytes) -> None:
        """Count blocks as psql does, and find COPY … FROM stdin."""
        if len(self._words) < 4:
            self._words.append(word)
            if not self._words_matter:
                self._pattern = _TOKEN
                return
        if self._depth == 0 and self._words[0] == b"copy":
            self._takes_rows |= self._last == b"from" and word == b"stdin"
        if self._depth == 0 and self._makes_function:
            if word == b"begin" or (word == b"case" and self._blocks):
                self._blocks += 1
            elif word == b"end" and self._blocks:
                self._blocks -= 1
        self._last = word

    @property
    def _words_matter(self) -> bool:
        words = tuple(self._words)
        return any(
            words == begin[: len(words)] or words[: len(begin)] == begin for begin in _BEGINS
        )

    @property
    def _makes_function(self) -> bool:
        words = tuple(self._words)
        return any(words[: len(begin)] == begin for begin in _BEGINS[1:])

    def _statement(self, end: bytes) -> SetupStatement:
        sql = b"".join((*self._parts, end))
        line = self._line or self._first_line
        if not self._takes_rows:
            return SetupStatement(sql, self._first_line, line)
        lines_before = sql.split(b"\n", line - self._first_line)
        copied = _COPIED.search(lines_before[-1].decode("utf-8", "replace"))
        table = folded(_last_part(copied[1])) if copied else None
        return SetupStatement(sql, self._first_line, line, self._rows(), self._number + 1, table)

    def _whole(self, line: bytes) -> bytes:
        """Return a line with a command, and the lines that continue it."""
        parts = [line]
        while parts[-1].rstrip(b"\r\n").endswith(b"\\") and (more := next(self._lines, b"")):
            self._number += 1
            parts.append(more)
        return b"".join(parts)

    def _made(self, before: bytes, command: bytes) -> SetupStatement:
        """Return the statement whose rows a command makes."""
        statement = self._statement(before)
        script, at = b"", 1
        for number, line in self._sets.items():
            script += b"\n" * (number - at) + line
            at = number + line.count(b"\n")
        lines = statement.sql.split(b"\n")[statement.line - statement.first_line :]
        script += b"\n" * (statement.line - at) + b"\n".join(lines) + command
        # Errors in its rows are of the line that makes them.
        return replace(statement, rows=None, table=None, made=script.decode("utf-8", "replace"))

    def _rows(self) -> Iterator[bytes]:
        """Yield the rows up to their end, which is passed over."""
        began, size = self._number, 0
        chunk: list[bytes] = []
        for line in self._read():
            if line in _END_OF_ROWS:
                if chunk:
                    yield b"".join(chunk)
                return
            chunk.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                yield b"".join(chunk)
                chunk, size = [], 0
        raise UsageError(
            f"{self._file}:{began}: the rows of COPY … FROM stdin have no end, a line that is \\.",
            code="setup-rows",
            hint="the file is not complete: make it again",
        )

    def _check_rest(self, rest: bytes) -> None:
        """Raise UsageError for text between COPY … FROM stdin and its rows."""
        if rest.strip() and not rest.lstrip().startswith(b"--"):
            raise UsageError(
                f"{self._file}:{self._number}: there is text behind COPY … FROM stdin; where its"
                " rows begin with the next line",
                code="setup-rows",
                hint="put it behind the rows",
            )

    def _check_command(self, line: bytes, at: int) -> None:
        """Raise UsageError for a command of psql, unless it has no effect here."""
        if _PASSED_OVER.match(line, at):
            return
        found = _COMMAND.match(line, at)
        assert found is not None
        word = visible_line(found[0].decode("utf-8", "replace"))
        raise UsageError(
            f"{self._file}:{self._number}: {word} is not SQL but a command of psql, which is not"
            " carried out here",
            code="setup-psql",
            hint=_HINTS.get(found[0], _HINT),
        )


def _last_part(relation: str) -> str:
    """Return the name of a relation without its schema, as it is written."""
    return re.sub(r'^(?:"(?:[^"]|"")*"|[^".\s]+)\s*\.\s*', "", relation)


def _too_long(file: str) -> UsageError:
    return UsageError(
        f"the setup {file} has a statement of more than {STATEMENT_BYTES_MAX >> 20} MB",
        code="setup-file",
        hint="rows that pg_dump writes without --inserts may be of any number",
    )
