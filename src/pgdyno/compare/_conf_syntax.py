"""Lines of postgresql.conf as the server's own scanner (guc-file.l) and parser read them.

A text is cut into the longest words that fit, whether or not blanks are between them: ``1.5GB`` is
a number and a name, so that it needs quotes, and ``a.b`` is a name of two parts, which is no value.
The scanner works on bytes: texts are decoded as Latin-1 here, and values afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from pgdyno.server.settings.setting_values import unescaped

_LETTER = r"[A-Za-z_\x80-\xff]"
_LATER = r"[A-Za-z_0-9\x80-\xff]"
_NAME = rf"{_LETTER}{_LATER}*"
_WORDS = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "name": _NAME,
        "qualified": rf"{_NAME}\.{_NAME}",
        "quoted": r"'(?:[^'\\\n]|\\[^\n]|'')*'",
        "word": rf"{_LETTER}(?:{_LATER}|[-._:/])*",
        "integer": r"[-+]?(?:0x[0-9a-fA-F]+|[0-9]+)[a-zA-Z]*",
        "real": r"[-+]?[0-9]*\.[0-9]*(?:[Ee][-+]?[0-9]+)?",
        "=": "=",
    }.items()
}
"""Kinds of words; of two that are as long, the first one counts."""
_BETWEEN = re.compile(r"[ \t\r]*(?:#[^\n]*)?")
_VALUES = {"name", "quoted", "word", "integer", "real"}


class Word(Struct, frozen=True):
    """A word of a line."""

    kind: str
    """``""`` for what is none."""
    text: str
    start: int


class ConfLine(Struct, frozen=True):
    """A line: its name and value, or the word at which it cannot be read."""

    number: int
    name: str = ""
    value: str = ""
    wrong: Word | None = None
    """Its kind is ``end`` if something is missing at the end."""
    text: str = ""
    """All of the line."""
    written: str = ""
    """The text after the name, although it is no value."""


def conf_lines_of(text: str) -> Iterator[ConfLine]:
    """Yield the lines that are neither empty nor comments."""
    for number, line in enumerate(_as_scanned(text).split("\n"), 1):
        words = list(_words(line))
        if words:
            yield _line(number, words, line)


def is_value(text: str) -> bool:
    """Return whether a value can be written without quotes."""
    text = _as_scanned(text)
    words = list(_words(text))
    return len(words) == 1 and words[0].text == text and words[0].kind in _VALUES - {"quoted"}


def _as_scanned(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def as_text(scanned: str) -> str:
    """Return a part of a line as text."""
    return scanned.encode("latin-1").decode("utf-8", "replace")


def _words(line: str) -> Iterator[Word]:
    at = 0
    while at < len(line):
        if skipped := _BETWEEN.match(line, at):
            at = skipped.end()
        if at == len(line):
            return
        word = _word(line, at)
        yield word
        at += len(word.text)


def _word(line: str, at: int) -> Word:
    found = Word("", line[at], at)
    longest = 0
    for kind, pattern in _WORDS.items():
        match = pattern.match(line, at)
        if match and len(match[0]) > longest:
            found, longest = Word(kind, match[0], at), len(match[0])
    return found


def _line(number: int, words: list[Word], line: str) -> ConfLine:
    """Return a line of these words, as ``ParseConfigFp`` takes them."""
    first, *rest = [*words, Word("end", "", len(line))]
    if first.kind not in ("name", "qualified"):
        return ConfLine(number, wrong=first, text=as_text(line))
    name = as_text(first.text)
    if rest[0].kind == "=":
        rest = rest[1:]
    value, *after = rest
    if value.kind not in _VALUES or after[0].kind != "end":
        wrong = value if value.kind not in _VALUES else after[0]
        end = words[-1].start + len(words[-1].text)
        written = as_text(line[value.start : end])
        return ConfLine(number, name, wrong=wrong, text=as_text(line), written=written)
    said = value.text
    if value.kind == "quoted":
        said = unescaped(said[1:-1]).partition("\0")[0]  # An escaped zero byte ends it.
    return ConfLine(number, name, as_text(said), text=as_text(line))
