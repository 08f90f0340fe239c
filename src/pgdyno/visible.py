"""Text of others (servers, scripts, files, names) made fit to be shown.

A control character in a server's message could move the cursor, colour the screen, turn the
reading order round or end a field. Whatever shows such text, in whatever medium, shows it through
``visible``: line ends and tabs stay, every other such character stands there escaped. Nothing that
could be shown as it is is changed, so it may be applied twice.
"""

from __future__ import annotations

import re
from typing import Any

# C0 and C1; what changes the reading order or cannot be seen (Unicode's Bidi_Control and the
# fillers and marks of no width); separators that some programs take for line ends; tags; halves of
# surrogate pairs, as file names that are not UTF-8 have.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    """``text`` with every character escaped that a terminal or a page would obey, not show."""
    if text.isascii() and text.isprintable():
        return text
    return _UNFIT.sub(_escaped, text.replace("\r\n", "\n"))


def visible_within(value: Any) -> Any:
    """``value`` with all text in it made visible, through lists and mappings, keys as well."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible_within(key): visible_within(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [visible_within(item) for item in value]
    return value


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8 (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
