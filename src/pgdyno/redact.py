"""Removal of passwords, and of credentials of web requests, from run files and messages.

A spec, a statement seen in pg_stat_activity, a setting or a server's message can contain a
password. Where the end of a password cannot be determined, more text is blanked rather than less.

A mistyped connection string is another case: it has no form in which the password could be found.
A word that may be one is not quoted at all (:func:`withhold`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

from pgdyno.credentials import MARK, hidden

# Patterns are texts, compiled when they are first used: every command imports them, few need them.
_NAMES = (
    r"(?:ssl|pg)?passw(?:or)?d|passphrase|ssl_passphrase_command|pwd"
    r"|scram_(?:client|server)_key|oauth_client_secret"
)
"""libpq's parameters and variables, server settings, and similar names."""

BLANK = "***"
NOT_SHOWN = "[not shown: it looks like a connection string]"
"""The replacement of a word that may contain a password."""
URI_HINT = "a connection string is written postgresql://user@host:5432/database"
"""The hint of an error that does not quote such a word."""

_BLANKED = r"(?!\*\*\*(?:[&\s'\");,\]}]|$))"
_END = r"(?=['\");,\]}]*(?:\s|$))"

# user:password@ in a URI of any scheme, misspelt ones too, up to the last @ of the word, or to the
# first one of the line: a password that should have been percent-encoded may hold anything. Digits
# and a slash are a port.
_IN_AUTHORITY = (
    r"(?i)(\b[a-z][a-z0-9+.-]*:/{1,3}[^\s:/?#@'\"]*:)(?!\d*(?:[/?#,\s'\"]|$))(?:\S+|[^\n@]+)(?=@)"
)
_IN_QUERY = rf"(?i)([?&](?:{_NAMES})=)[^&\s]+?(?=&|{_END})"

# A literal that can contain a password: of SQL (also continued on the next line, or truncated), of
# TOML, JSON and conninfo strings; a conninfo string within an SQL literal has its quotes doubled.
_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*\n)*"
_LITERAL = (  # {0}: a name for the tag of a dollar quote
    r"(?:''(?=[^\s'])(?:[^'\\]|\\.|'(?!'))*(?:''|$)"
    r"|(?:e|n|u&)?'(?:[^'\\]|\\.|'')*(?:'|$)(?:[^\S\n]*\n\s*'(?:[^'\\]|\\.|'')*(?:'|$))*"
    r"|\"(?:[^\"\\]|\\.)*(?:\"|$)"
    r"|\$(?P<{0}>\w*)\$.*?(?:\$(?P={0})\$|$))"
)
# A path that ends in such a word, with a message: `/etc/passwd: Permission denied`,
# `"/etc/passwd":3: …`. Only an absolute path can be distinguished from a key.
_PATH = (
    r"(?<![^\s'\"(=])(?:~|\.{1,2})?/(?:[\w.+-]+/)*[\w.+-]*?"
    rf"(?:{_NAMES})(?=:\s|:\d+:|['\"]:\s*[^\s'\"]|['\"]\s+[a-z]{{2}})"
)
# A name that a message quotes: `missing "=" after "password" in …`.
_TITLE = rf"(?<![^\s(])\"(?:{_NAMES})\"(?=\s+[a-z]{{2}})"
_BARE = rf"(?:\\.|[^\s\\]|\\$)+?{_END}"
_NAMED = (
    rf"(?is)(?P<path>{_PATH}|{_TITLE})"
    rf"|(?P<name>(?:{_NAMES})\b(?:['\"]{_GAP}[,=:]|{_GAP}[=:]){_GAP}){_BLANKED}(?!\$\d)"
    rf"(?P<value>{_LITERAL.format('tag')}|{_BARE})"
    rf"|(?P<word>(?:{_NAMES})\b{_GAP})(?P<literal>{_LITERAL.format('mark')})"
)
_COMMAND = r"(?i)(\bssl_passphrase_command\s*=\s*)(?=[^\s'\"])[^\n]+"
# PASSWORD %L, PASSWORD ' || …: any of the following text may be the password.
_COMPOSED = rf"(?is)((?:{_NAMES})\b{_GAP}(?:%\d*\$?-?\d*[LsI]|'{_GAP}\|\|)).+"
# Stored verifiers of passwords (pg_authid.rolpassword).
_VERIFIER = r"SCRAM-SHA-256\$[^\s'\"]+|\bmd5[0-9a-f]{32}\b"
# A whole URI whose password _IN_AUTHORITY finds, with parameters that are no passwords.
_WELL_FORMED = (
    r"(?i)postgres(?:ql)?://[^\s:/?#@]*(?::[^\s:/?#@]+)?@[^\s@?]*"
    rf"(?:\?(?:(?!(?:{_NAMES})=)\w+=[^\s@&]+(?:&|$))+)?"
)
_PORT = r"\d{1,5}(?=[/,?]|$)"
_WITH_CREDENTIALS = (
    rf"(?i).@|:(?!//|{_PORT})[^/]|://[^/?]*:(?!{_PORT})[^/?]|\b(?:{_NAMES})\b[\s=:'\"]+\S"
    r"|\b(?:user|host|hostaddr|port|dbname|service)\s*=\s*\S+\s+\S"
)
_WEIGHT = re.compile(r"@-?\d*$")
# Each colon counts, also one behind which another stands: what is before it may be a user.
_CREDENTIALS = rf"(?is)(?=:/*([^:/].*)|\b(?:{_NAMES})\b[\s=:'\"]+(\S+))"
_FRAGMENT_MIN = 3
"""Length from which part of a password is recognised in a message."""
_TELLTALE = re.compile(r"pass|pwd|scram|_secret|md5", re.I)


def blank(text: str) -> str:
    """Return ``text`` with every password in it replaced by ``***``, and every other credential by
    what it hashes to."""
    text = hidden(text)
    if not _TELLTALE.search(text):
        return re.sub(_IN_AUTHORITY, rf"\g<1>{BLANK}", text) if ":/" in text else text
    text = re.sub(_COMPOSED, rf"\g<1> {BLANK}", text)
    text = re.sub(_IN_AUTHORITY, rf"\g<1>{BLANK}", text)
    text = re.sub(_IN_QUERY, rf"\g<1>{BLANK}", text)
    text = re.sub(_COMMAND, rf"\g<1>{BLANK}", text)
    text = re.sub(_NAMED, _blanked, text)
    return re.sub(_VERIFIER, BLANK, text)


def is_blanked(text: str) -> bool:
    """True if ``text`` has something in place of a credential, so that it cannot be run."""
    probed = text.replace(BLANK, "x1y2")
    return re.search(MARK, text) is not None or (probed != text and blank(probed) != probed)


def may_hold_password(word: str) -> bool:
    """True if ``word``, typed as the name of something, may be a mistyped connection string.

    It contains ``@``, ``:`` with something other than a port behind it, or the name of a password
    with something behind it. A path such as ``/etc/passwd`` does not, nor does an address.
    """
    word = _WEIGHT.sub("", word)
    if re.fullmatch(_WELL_FORMED, word) or _is_address(word):
        return False
    return re.search(_WITH_CREDENTIALS, word) is not None


def withhold(text: str, words: Iterable[str]) -> str:
    """Return ``text`` without those of ``words`` that may hold a password, or parts of them."""
    for word in filter(may_hold_password, words):
        for form in sorted({*_forms(word)}, key=len, reverse=True):
            text = re.sub(rf"([\"']?){re.escape(form)}\1", NOT_SHOWN, text)
        for part in _fragments(word):
            text = text.replace(part, BLANK)
    return text


def _is_address(word: str) -> bool:
    """True for an IPv6 address, or a list of addresses."""
    with suppress(ValueError):
        for each in word.split(","):
            ip_address(re.sub(r"^\[|\](?::\d{1,5})?$", "", each))
        return True
    return False


def _forms(word: str) -> Iterator[str]:
    """Yield ``word`` as a message may quote it."""
    unquoted = word.encode("utf-8", "replace").decode()
    yield from (word, shlex.quote(word), repr(word), quote(unquoted, safe=""))
    if "\0" not in word:
        path = Path(word)
        yield from map(str, (path, path.absolute()))
        yield from (part for part in (str(path.parent), path.name) if may_hold_password(part))


def _fragments(word: str) -> Iterator[str]:
    """Yield the possible passwords in ``word``: whole, and up to each separator."""
    for found in re.finditer(_CREDENTIALS, word):
        behind = found[1] or found[2]
        parts = (behind, behind.rpartition("@")[0], *re.split(r"[\s/@:?,]", behind)[:1])
        yield from (part for part in parts if len(part) >= _FRAGMENT_MIN)


def is_secret(key: str) -> bool:
    """True if ``key`` is the name of a secret."""
    return re.fullmatch(_NAMES, key, re.I) is not None


def _blanked(found: re.Match[str]) -> str:
    """Return the name unchanged, with ``***`` between the quotes of its value."""
    if found["path"]:
        return found[0]
    name, value = found["name"] or found["word"], found["value"] or found["literal"]
    opening = re.match(r"''(?=[^\s'])|(?:e|n|u&)?'|\"|\$\w*\$", value, re.I)
    quote = opening[0].lstrip("eEnNuU&") if opening else ""
    return f"{name}{quote}{BLANK}{quote}"
