"""A search in a capture for values of its source, in plain text, base64 and hexadecimal."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

VALUE_CHARACTERS_MIN = 4
"""Shorter values are found everywhere."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def values_in(content: str, values: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the values that a content has, without those that are names of the schema.

    Numbers are not looked for: sizes and rates are numbers too.
    """
    words = set(re.findall(r"\w+", content))
    known = {each.lower() for each in names}
    return [each for each in values if each.lower() not in known and _is_in(content, words, each)]


def _is_in(content: str, words: set[str], value: str) -> bool:
    if _NUMBER.fullmatch(value):
        return False
    coded = value.encode()
    plain = value in words if re.fullmatch(r"\w+", value) else value in content
    return plain or coded.hex() in content or base64.b64encode(coded).decode() in content
