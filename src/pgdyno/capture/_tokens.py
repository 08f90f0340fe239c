"""The tokens of SQL and PL/pgSQL, as the server's scanner divides a text.

Statements of pg_stat_statements need less (``statement_shapes``): they may be cut, and hold hardly
a literal. A body of a function is whole, and is left out if it cannot be read for certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

Kind = Literal["space", "comment", "text", "name", "word", "number", "parameter", "other"]
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("space", r"\s+"),
    ("comment", r"--[^\n\r]*"),
    ("name", r'(?:[uU]&)?"(?:[^"]|"")+"'),
    ("text", r"(?:[uU]&|[bBxXnN])?'(?:[^']|'')*'"),
    ("text", r"[eE]'(?:[^'\\]|\\.|'')*'"),
    ("text", r"\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$"),
    ("parameter", r"\$\d+"),
    ("word", r"[^\W\d][\w$]*"),
    ("number", r"\d\w*(?:\.\d\w*)?(?:(?<=[eE])[+-]\d+)?"),
    ("other", r"[^'\"]"),
)
_TOKEN = re.compile(
    "|".join(f"(?P<{kind}_{number}>{each})" for number, (kind, each) in enumerate(_PATTERNS)),
    re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_NEXT_LINE = re.compile(r"[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:\s|--[^\n\r]*)*'")


class Unreadable(Exception):
    """A text that is not divided for certain."""


class Token(Struct, frozen=True):
    """A part of a text."""

    kind: Kind
    text: str


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens, which together are the text. Raises Unreadable for a text or a comment
    without an end, and for a text that ends elsewhere without standard_conforming_strings."""
    at = 0
    while at < len(text):
        token = _token(text, at)
        yield token
        at += len(token.text)


def _token(text: str, at: int) -> Token:
    if text.startswith("/*", at):
        return Token("comment", text[at : _end_of_comment(text, at)])
    found = _TOKEN.match(text, at)
    if found is None or found.lastgroup is None:
        raise Unreadable("a text has no end")
    if found[0].startswith("$") and _is_open(text, found):
        raise Unreadable("a text has no end")
    kind = _PATTERNS[int(found.lastgroup.rpartition("_")[2])][0]
    if kind == "text" and not found[0].startswith("$"):
        _check(text, found)
    return Token(kind, found[0])


def _is_open(text: str, found: re.Match[str]) -> bool:
    """Return whether a text in dollars begins at a token that is none, as it has no end."""
    opened = re.compile(r"\$(?:[^\W\d]\w*)?\$").match(text, found.start())
    return opened is not None and found.end() < opened.end()


def _check(text: str, found: re.Match[str]) -> None:
    escapes = found[0][0] in "eE"
    if not escapes and "\\'" in found[0] and found[0][:2].lower() != "u&":
        raise Unreadable("a text ends elsewhere without standard_conforming_strings")
    if escapes and _NEXT_LINE.match(text, found.end()):
        raise Unreadable("a text with escapes goes on in the next line")


def _end_of_comment(text: str, at: int) -> int:
    depth = 0
    for found in _COMMENT.finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    raise Unreadable("a comment has no end")
