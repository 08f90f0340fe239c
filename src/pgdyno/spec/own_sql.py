"""SQL of the user's that makes or undoes a change: its title, and texts that cannot be either."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.escaping import visible_line
from pgdyno.redact import blank

TITLE_LENGTH = 72
_COMMENTS = r"(?:\s|/\*.*?\*/|--[^\n]*(?:\n|$))*"
_FIRST = re.compile(rf"{_COMMENTS}(\w+)", re.S)
_EMPTY = re.compile(rf"(?:{_COMMENTS}|;)*", re.S)
_PREPARED = re.compile(rf"{_COMMENTS}prepare\s+transaction\b", re.I | re.S)
_TEXTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_CONTROL = frozenset(
    ("abort", "begin", "commit", "end", "release", "rollback", "savepoint", "start")
)
_OF_CLIENT = re.compile(r"\b(?:stdin|stdout)\b", re.I)


def title_of_sql(statements: Sequence[str]) -> str:
    """Return statements as one line of at most ``TITLE_LENGTH`` characters and the number of those
    behind the first, without characters that a terminal would obey."""
    line = visible_line(" ".join(statements[0].split())).rstrip("; ")
    if len(line) > TITLE_LENGTH:
        line = f"{line[: TITLE_LENGTH - 1].rstrip()}…"
    more = len(statements) - 1
    return f"{line} (and {more} more)" if more else line


def first_word(statement: str) -> str:
    """Return the first word of a statement in lower case, behind comments; '' without one."""
    found = _FIRST.match(statement)
    return found[1].lower() if found else ""


def unfit(statement: str) -> str | None:
    """Return why a text can be no part of a change, where the server is not needed to tell."""
    if _EMPTY.fullmatch(statement):
        return "is empty"
    if "\0" in statement:
        return "has a zero byte"
    if blank(statement) != statement:
        return "has a password or another credential, which the run file and the page would show"
    if statement.lstrip().startswith("\\"):
        return "is a command of psql, not SQL"
    word = first_word(statement)
    if word in _CONTROL or _PREPARED.match(statement):
        return "begins or ends a transaction; pgdyno runs the statements in one, where they can be"
    if word == "copy" and _OF_CLIENT.search(_TEXTS.sub("", statement)):
        return "copies from or to the client, which has no data for it; COPY of a file can be used"
    return None
