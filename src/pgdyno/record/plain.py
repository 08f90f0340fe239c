"""Convert values for a run file: plain JSON and valid UTF-8, without passwords."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from pgdyno.credentials import hashed, is_credential
from pgdyno.redact import BLANK, blank, is_secret


def storable(text: str) -> str:
    """Return ``text`` with bytes that are not UTF-8 escaped, as SQLite requires."""
    return text.encode("utf-8", "backslashreplace").decode()


def plain(value: Any, where: str = "value") -> Any:
    """Return ``value`` in JSON types, without passwords: numpy scalars unwrapped, NaN and infinity
    as None.

    Raises TypeError for what has no JSON form.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain_member(str(key), item, where) for key, item in value.items()}
    if isinstance(value, str):
        return blank(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, PurePath):
        return blank(str(value))
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist(), where)
    raise TypeError(f"{where}: {type(value).__name__} has no JSON form")


def _plain_member(key: str, item: Any, where: str) -> Any:
    if is_secret(key) and not isinstance(item, bool) and item not in (None, ""):
        return BLANK
    if isinstance(item, str) and where.endswith("variables") and is_credential(key):
        return hashed(item)
    return plain(item, f"{where}.{key}")
