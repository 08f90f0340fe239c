"""Escaping of control characters in text from servers, scripts, files and names.

A control character in a server's message could move the cursor, colour the screen, reverse the
reading order or end a field. All output of such text goes through ``visible``: line ends and tabs
are kept, every other such character is escaped. Printable text is not changed, so applying it twice
does no harm.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

# C0 and C1; characters that change the reading order or are invisible (Unicode's Bidi_Control,
# fillers and zero-width marks); separators that some programs treat as line ends; tags; surrogates,
# which occur in file names that are not UTF-8.
_ESCAPED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """Return ``text`` with control characters and invisible characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    return _ESCAPED.sub(_escape, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return visible text in which line breaks are escaped too, so that no name begins a line."""
    return visible(text).replace("\n", "\\n")


def shell_line(words: Iterable[str]) -> str:
    """Return words as a shell reads them, each as one and all on one line."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if visible_line(word) == word and "\t" not in word:
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return "$'" + _ESCAPED.sub(_escape, escaped.replace("\t", "\\t")) + "'"


def is_utf8(text: str) -> bool:
    """True if ``text``, an argument or a file name, was UTF-8 and not other bytes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def visible_within(value: Any) -> Any:
    """Return ``value`` with ``visible`` applied to all text in it, including mapping keys."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible_within(key): visible_within(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [visible_within(item) for item in value]
    return value


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8 (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
