r"""Text files of the user: scripts, SQL, lists of URLs, and lines that scripts name with ``\csv``.

``\csv users.csv login password`` becomes ``\csv users.csv login password = [["ann","x"],…]``, so
that a run file has everything that a repetition needs, and the engine reads no files. Without
names, the first line of the file has them.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.files import read_at_most

_BYTES_MAX = 256 << 20
_URLS_BYTES_MAX = 1 << 20
_CSV_LINE = re.compile(
    r"^(?P<word>[ \t]*\\csv[ \t]+)(?P<file>'(?:[^'\n]|'')+'|[^\s']\S*)(?P<names>[^\n=]*?)[ \t\r]*$",
    re.MULTILINE | re.IGNORECASE,
)
_CSV_BYTES_MAX = 8 << 20


def read_text(file: str, what: str, *, bytes_max: int = _BYTES_MAX) -> str:
    """Return the text of ``file``, called ``what`` in errors. Raises UsageError."""
    try:
        content = read_at_most(Path(file).expanduser(), bytes_max)
        if len(content) > bytes_max:
            raise UsageError(
                f"the {what} {file} is longer than {bytes_max >> 20} MB", code=f"{what}-file"
            )
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise unreadable(file, what, error) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"the {what} {file} is not UTF-8 text",
            code=f"{what}-file",
            hint="convert it with iconv -t UTF-8; other bytes can be written as E'\\xe9'",
        ) from None
    return text


def unreadable(file: str, what: str, error: OSError) -> UsageError:
    """Return the error for a file that cannot be opened or read."""
    return UsageError(f"the {what} {file} cannot be read: {error.strerror}", code=f"{what}-file")


def read_urls(file: str) -> list[tuple[str, str]]:
    """Return the URLs in ``file``, one a line, each after its ``file:line``.

    Blank lines and those that begin with # do not count. Raises UsageError.
    """
    lines = read_text(file, "url-list", bytes_max=_URLS_BYTES_MAX).splitlines()
    urls = [
        (f"{file}:{number}", line.strip())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not urls:
        raise UsageError(f"the list of URLs {file} is empty", code="url-list-file")
    return urls


def with_csv(text: str, read: Callable[[str], str]) -> str:
    r"""Return a script with the lines of the files that ``\csv`` names; ``read`` returns the text
    of one. Raises UsageError."""
    return _CSV_LINE.sub(partial(_filled, read), text) if "\\csv" in text.lower() else text


def read_lines(file: str) -> str:
    """Return the text of a file of lines. Raises UsageError."""
    return read_text(file, "csv", bytes_max=_CSV_BYTES_MAX)


def _filled(read: Callable[[str], str], found: re.Match[str]) -> str:
    file = found["file"]
    name = file[1:-1].replace("''", "'") if file.startswith("'") else file
    try:
        rows = [row for row in csv.reader(io.StringIO(read(name)), strict=True) if row]
    except csv.Error as problem:
        raise UsageError(f"the csv {name}: {problem}", code="csv-syntax") from None
    names = found["names"]
    if not names.strip():
        names = f" {' '.join(each.strip() for each in rows[0])}" if rows else ""
        rows = rows[1:]
    return f"{found['word']}{file}{names.rstrip()} = {json.dumps(rows, separators=(',', ':'))}"
