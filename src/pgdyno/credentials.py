"""Credentials of web requests in text: tokens, cookies, keys and the header Authorization.

What a run records and shows has a credential only as what it hashes to, ``[sha256:1a2b3c4d]``, so
that two runs can be compared; a password, also that of Basic, would be guessed from a hash and is
``***``. A variable of a script is no credential. With ``--credentials``, for which a command calls
:func:`keep`, they stay as they are written.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from functools import lru_cache, partial

Hide = Callable[[str], str]
"""A function that returns the replacement of a credential."""
PASSWORD = "***"
_NAME = (
    r"(?:[\w.-]*(?:token|api[-_.]?key|access[-_.]?key|subscription-key|secret(?:[-_.]?key)?"
    r"|signature|credentials?|sess(?:ion)?[-_.]?id|jwt|assertion)"
    r"|x-functions-key|sig|sid|_?[cx]srf|(?:proxy-)?authorization|(?:set-)?cookie2?)"
)
"""Names of headers, parameters and members of JSON and XML that hold a credential."""
MARK = r"\[sha256:[0-9a-f]{8}\]"
"""Text that stands for a credential."""
_VALUE = r"[^&\s\"'<>#]+"
_KEPT = rf"(?:(?:[\w-]+ )?(?::\w+|:\{{\w+\}}|\$\{{[^}}]*\}}|\$\d+)|\*+|{MARK}|\s)*"
"""Values that are none: variables of scripts and of plans, and what is hidden already."""
_TELLTALES = (
    *("token", "key", "secret", "sig", "auth", "cookie", "credential", "sess", "jwt", "eyj"),
    *("bearer", "basic", "sid", "csrf", "xsrf", "assertion"),
)
"""Text without any of these has no credential, except the user of a URL."""
_CACHED_LETTERS_MAX = 1000
_LINE = rf"(?im)(^[ \t]*(?:\\header[ \t]+)?({_NAME})[ \t]*:[ \t]*)((?:\\\r?\n|[^\r\n])+)"
_IN_QUOTES = rf"(?i)((['\"])({_NAME})[ \t]*:[ \t]*)((?:(?!\2).)+)"
_MEMBER = (
    rf"(?is)((\\{{0,8}}['\"])({_NAME})\2\s*[:=]\s*(\\{{0,8}}['\"]))((?:(?!\4)(?:\\.|[^\\]))+)(?=\4)"
)
_PAIR = (  # as a HAR file has headers
    rf"(?i)(\"name\"\s*:\s*\"({_NAME})\"\s*,\s*\"value\"\s*:\s*\")((?:\\.|[^\"\\])+)"
)
_KEY = (  # of TOML
    rf"(?im)((?:^[ \t]*|[{{,]\s*)(?:[\w-]+\s*\.\s*)*({_NAME})\s*=\s*(['\"]))"
    r"((?:(?!\3)(?:\\.|[^\\\n]))+)"
)
_ELEMENT = rf"(?i)(<(?:\w+:)?({_NAME})(?:\s[^<>]*)?>)([^<]+)"
_PART = (  # of a multipart body, in one text or in lines of a script
    rf"(?i)(name=\"?({_NAME})\"?[^\r\n]*\r?\n"
    r"(?:[^\r\n:]*:[^\r\n]*\r?\n)*[ \t]*(?:\\body)?[ \t]*\r?\n"
    r"[ \t]*(?:\\body[ \t]+)?)([^\r\n]+)"
)
_PARAMETER = (
    rf"(?im)((?:[?&]|;(?=jsessionid)|\A|^[ \t]*\\body[ \t]+)(?:{_NAME}|jsessionid)=)({_VALUE})"
    rf"|((?<![\w.-]){_NAME}=)({_VALUE})(?=&)|([?&]key=)([\w-]{{20,}})"
)
_USER = r"(?i)(\bhttps?://)([^\s/?#@:\"']+)(?=@)"
_BEARER = r"(?i)(\bBearer[ \t]+)(?![a-z]+\b)([\w.~+/-]{8,}=*)"
_BASIC = r"(?i)(\bBasic[ \t]+)([A-Za-z0-9+/]{4,}={0,2})"
_JWT = r"\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*"
_SCHEME = r"(?s)([A-Za-z][\w-]*[ \t]+)(.*)"
_EXPECTED = r"(?m)^[ \t]*\\(?:contains|lacks|matches|extract)\b[^\r\n]*"
"""Lines of a script about a response, in which names of credentials are no sign of one."""
_PLACE = "\0"
_KNOWN_LETTERS_MIN = 6
_ATTRIBUTES = frozenset(("path", "domain", "expires", "max-age", "samesite"))
"""Of a cookie that a server sets."""

_kept = False


def keep(kept: bool) -> None:
    """Leave credentials as they are written in all that this process records, or no longer."""
    global _kept
    _kept = kept


def are_kept() -> bool:
    """True if credentials stay as they are written."""
    return _kept


def is_credential(name: str) -> bool:
    """True if ``name`` is that of a header, a parameter or a member with a credential."""
    return re.fullmatch(_NAME, name, re.I) is not None


def hidden(text: str) -> str:
    """Return ``text`` with each credential replaced by its hash."""
    if _kept or text.isidentifier():  # the name of something, such as a setting, without a value
        return text
    lower = text.lower()
    if not any(each in lower for each in _TELLTALES) and not ("@" in lower and "http" in lower):
        return text
    return _hidden(text) if len(text) > _CACHED_LETTERS_MAX else _hidden_before(text)


def _hidden(text: str) -> str:
    expected = [] if _PLACE in text else re.findall(_EXPECTED, text)
    values: set[str] = set()
    hide = partial(_noted, values)
    shown = _by_form(_by_name(re.sub(_EXPECTED, _PLACE, text) if expected else text, hide), hide)
    for line in expected:
        for value in sorted(values, key=len, reverse=True):
            line = line.replace(value, hashed(value))
        shown = shown.replace(_PLACE, _by_form(line, hide), 1)
    return shown


def _by_name(text: str, hide: Hide) -> str:
    """Return ``text`` without the values of keys that are named like a credential."""
    for pattern in (_LINE, _PAIR, _KEY, _ELEMENT, _PART):
        text = re.sub(
            pattern, lambda found: found[1] + _of(found[2], found[found.re.groups], hide), text
        )
    for pattern in (_IN_QUOTES, _MEMBER):
        text = re.sub(
            pattern, lambda found: found[1] + _of(found[3], found[found.re.groups], hide), text
        )
    return re.sub(_PARAMETER, partial(_parameter, hide), text)


def _by_form(text: str, hide: Hide) -> str:
    """Return ``text`` without words that have the form of a credential."""
    text = re.sub(_USER, lambda found: found[1] + hide(found[2]), text)
    text = re.sub(_BASIC, lambda found: found[1] + _basic(found[2]), text)
    text = re.sub(_BEARER, lambda found: found[1] + hide(found[2]), text)
    return re.sub(_JWT, lambda found: hide(found[0]), text)


def _noted(values: set[str], value: str) -> str:
    """Return the replacement of a credential, and add the credential to ``values`` if it is long
    enough to be recognised elsewhere."""
    if len(value) >= _KNOWN_LETTERS_MIN and not re.fullmatch(_KEPT, value):
        values.add(value)
    return hashed(value)


_hidden_before = lru_cache(maxsize=4096)(_hidden)
"""Statements are recorded again and again."""


def hashed(value: str) -> str:
    """Return the replacement of a credential; the value itself, if it is none."""
    if re.fullmatch(_KEPT, value):
        return value
    return f"[sha256:{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}]"


def _of(name: str, value: str, hide: Hide) -> str:
    """Return the replacement of a header's value, or of that of a member of that name."""
    name, end = name.lower(), value[len(value.rstrip()) :]
    value = value.rstrip()
    if "cookie" in name:
        return ";".join(_cookie(pair, hide) for pair in value.split(";")) + end
    scheme = re.fullmatch(_SCHEME, value) if "authorization" in name else None
    if scheme is None:
        return hide(value) + end
    if scheme[1].strip().lower() == "basic":
        return scheme[1] + (scheme[2] if re.fullmatch(_KEPT, scheme[2]) else PASSWORD) + end
    return scheme[1] + hide(scheme[2]) + end


def _cookie(pair: str, hide: Hide) -> str:
    name, equals, value = pair.partition("=")
    if not equals:
        return pair if name.strip().lower() in ("", "secure", "httponly") else hide(pair)
    return pair if name.strip().lower() in _ATTRIBUTES else name + equals + hide(value)


def _parameter(hide: Hide, found: re.Match[str]) -> str:
    before, value = (part for part in found.groups() if part is not None)
    return before + hide(value)


def _basic(value: str) -> str:
    """Return ``***`` for a user and a password in base64; any other word as it is."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4))
    except ValueError:
        return value
    return PASSWORD if b":" in decoded else value
