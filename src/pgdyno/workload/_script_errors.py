"""Errors of a script, all of them at once, and what to write instead of old or foreign lines.

The parser stops at the first error. If it is in a line of its own, the others are found by parsing
again without that line, or with one in its place that keeps the structure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno._engine import ScriptError

_ERRORS_MAX = 8
_COMMAND = re.compile(r"[ \t]*\\([^\s\\]+)")
_IN_ITS_PLACE = {
    **{word: f"\\{word} 1" for word in ("if", "elif")},
    **{
        word: f"\\{word} /" for word in ("get", "head", "post", "put", "patch", "delete", "options")
    },
    "for": "\\for round_of_{line} 1",
    **{word: f"\\{word}" for word in ("else", "endif", "endfor", "gset", "aset")},
    **{word: f"\\{word}" for word in ("startpipeline", "syncpipeline", "endpipeline")},
}
"""Lines on whose presence others depend; all others are left out."""
_SETRANDOM = r"(?i)[ \t]*\\setrandom\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+(\S+)\s+(\S+))?\s*"
_KINDS = {"gaussian": "random_gaussian", "exponential": "random_exponential"}
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_COPY_DATA = r"(?is)\s*copy\s+[^(\s].*\bfrom\s+stdin\b.*"
_ROWS_HINT = (
    "end it with \\rows instead of a semicolon, which generates the rows: copy t from stdin"
    " \\rows 1000 :row, random(1, 10)"
)


def check_script_text(text: str, file: str) -> list[str]:
    """Return the statements of a script. Raises UsageError with all errors that are found."""
    from pgdyno._engine import ScriptError, check_script

    lines = text.split("\n")
    found: list[tuple[int, str, str | None]] = []
    while len(found) < _ERRORS_MAX:
        try:
            statements = check_script("\n".join(lines), file)["statements"]
        except ScriptError as error:
            problem = (error.line, error.message, _hint(lines[error.line - 1], error))
            if problem in found:
                break
            found.append(problem)
            if not _leave_out(lines, error.line - 1):
                break
        else:
            if not found:
                return statements
            break
    raise _error(sorted(found, key=lambda each: each[0]))


def check_copy_data(text: str, statements: list[str], file: str) -> None:
    """Raise UsageError for a COPY FROM STDIN that ends without rows."""
    at = 0
    for statement in statements:
        at = text.find(statement, at)
        if at < 0:  # It is not there as it is written.
            return
        after = text[at + len(statement) :].lstrip()
        if re.fullmatch(_COPY_DATA, _COMMENT.sub(" ", statement)) and not after.startswith("\\"):
            line = text.count("\n", 0, at) + 1
            raise UsageError(
                f"{file}:{line}: a script has no data for COPY FROM STDIN",
                code="script-copy-data",
                hint=_ROWS_HINT,
            )
        at += len(statement)


def _error(found: list[tuple[int, str, str | None]]) -> UsageError:
    if len(found) == 1:
        ((_, message, hint),) = found
        return UsageError(message, code="script-syntax", hint=hint)
    lines = [f"{message} ({hint})" if hint else message for _, message, hint in found]
    return UsageError("\n".join(lines), code="script-syntax")


def _hint(line: str, error: ScriptError) -> str | None:
    command = _COMMAND.match(line)
    word = command[1].lower() if command else ""
    if word == "setrandom":
        return f"write {_today(line)}"
    if word == ".":
        return f"data after COPY FROM STDIN cannot stand in a script: {_ROWS_HINT}"
    return error.hint


def _today(line: str) -> str:
    r"""Return the ``\set`` that a line of pgbench 9.5 stands for."""
    found = re.fullmatch(_SETRANDOM, line)
    if found is None:
        return "\\set NAME random(1, 10)"
    name, low, high, kind, parameter = found.groups()
    function = _KINDS.get((kind or "").lower())
    if function is None or parameter is None:
        return f"\\set {name} random({low}, {high})"
    return f"\\set {name} {function}({low}, {high}, {parameter})"


def _leave_out(lines: list[str], number: int) -> bool:
    """Replace a command, with the lines that continue it; False if it cannot be, or was."""
    while number and lines[number - 1].rstrip("\r").endswith("\\"):
        number -= 1
    command = _COMMAND.match(lines[number])
    if command is None:
        return False
    new = _IN_ITS_PLACE.get(command[1].lower(), "").format(line=number + 1)
    if lines[number] == new:
        return False
    while lines[number].rstrip("\r").endswith("\\") and number + 1 < len(lines):
        lines[number], number = "", number + 1
    lines[number] = new
    return True
