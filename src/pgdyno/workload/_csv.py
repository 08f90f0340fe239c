r"""Files of lines that scripts name with ``\csv``: their lines are put into the script.

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

from pgdyno.errors import UsageError
from pgdyno.workload._textfile import read_text

_LINE = re.compile(
    r"^(?P<word>[ \t]*\\csv[ \t]+)(?P<file>'(?:[^'\n]|'')+'|[^\s']\S*)(?P<names>[^\n=]*?)[ \t\r]*$",
    re.MULTILINE | re.IGNORECASE,
)
_BYTES_MAX = 8 << 20


def with_csv(text: str, read: Callable[[str], str]) -> str:
    r"""Return a script with the lines of the files that ``\csv`` names; ``read`` returns the text
    of one. Raises UsageError."""
    return _LINE.sub(partial(_filled, read), text) if "\\csv" in text.lower() else text


def read_lines(file: str) -> str:
    """Return the text of a file of lines. Raises UsageError."""
    return read_text(file, "csv", bytes_max=_BYTES_MAX)


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
