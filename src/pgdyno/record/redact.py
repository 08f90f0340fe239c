"""Keeps passwords out of run files: refuses them in structured values, blanks them in free text.

A password in a mapping is a mistake of the code that passes it (connection facts must be stripped
where they are made), so ``plain`` raises ValueError. Free text — a spec as written, a statement
seen in pg_stat_activity, a server's message — can carry one by no fault of ours, so ``blank``
replaces it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

SECRET_KEYS = frozenset({"password", "passwd", "pgpassword", "sslpassword", "passphrase"})
"""Names whose non-empty value is a secret: libpq's parameters and variables, and their kin."""

BLANK = "***"

# user:password@ in a URI of any scheme; the password may hold anything but the URI's delimiters.
_URI_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/?#@'\"]*:)([^\s/?#@'\"]+)(@)", re.I)
# password=… in a conninfo string, a URI's query or a TOML line; password '…' in SQL.
_NAMED_PASSWORD = re.compile(
    r"(\b(?:ssl|pg)?(?:password|passwd|passphrase)\b\"?\s*(?:[=:]\s*|\s+(?=')))"
    r"('(?:[^']|'')*'|\"[^\"]*\"|[^\s&'\",;)]+)",
    re.I,
)


def blank(text: str) -> str:
    """``text`` with the value of every password in it replaced by ``***``."""
    if "://" not in text and "pass" not in text.lower():
        return text
    text = _URI_PASSWORD.sub(rf"\g<1>{BLANK}\g<3>", text)
    return _NAMED_PASSWORD.sub(rf"\g<1>{BLANK}", text)


def plain(value: Any, where: str = "value") -> Any:
    """``value`` as JSON can hold it: numpy scalars unwrapped, NaN and infinity as None.

    Raises ValueError if a password is in it, naming the place but not the password, and
    TypeError for what has no JSON form.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain_member(str(key), item, where) for key, item in value.items()}
    if isinstance(value, str):
        _refuse_uri_password(value, where)
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist(), where)
    raise TypeError(f"{where}: {type(value).__name__} has no JSON form")


def _plain_member(key: str, item: Any, where: str) -> Any:
    if key.lower() in SECRET_KEYS and item not in (None, "", BLANK):
        raise ValueError(f"{where}.{key}: a password must not reach a run file")
    return plain(item, f"{where}.{key}")


_CONNINFO_PASSWORD = re.compile(r"(?:^|\s)(?:ssl)?password\s*=\s*(?!\*\*\*)\S", re.I)
_CONNINFO = re.compile(r"\s*(?:\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'|[^\s']\S*)\s*)+", re.S)


def _refuse_uri_password(text: str, where: str) -> None:
    found = _URI_PASSWORD.search(text)
    if found and found[2] != BLANK:
        raise ValueError(f"{where}: a URI with a password must not reach a run file")
    query = "://" in text and re.search(r"[?&](?:ssl)?password=(?!\*\*\*)[^&\s]", text, re.I)
    if query or (_CONNINFO_PASSWORD.search(text) and _CONNINFO.fullmatch(text)):
        raise ValueError(f"{where}: a conninfo with a password must not reach a run file")
