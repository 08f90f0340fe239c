"""Removal of passwords from run files and messages.

A spec, a statement seen in pg_stat_activity, a setting or a server's message can contain a
password. Where the end of a password cannot be determined, more text is blanked rather than less.
"""

from __future__ import annotations

import re

_NAMES = (
    r"(?:ssl|pg)?passw(?:or)?d|passphrase|ssl_passphrase_command|pwd"
    r"|scram_(?:client|server)_key|oauth_client_secret"
)
"""libpq's parameters and variables, server settings, and similar names."""

BLANK = "***"

_SECRET_KEY = re.compile(_NAMES, re.I)
_BLANKED = r"(?!\*\*\*(?:[&\s'\");,\]}]|$))"
_END = r"(?=['\");,\]}]*(?:\s|$))"

# user:password@ in a URI of any scheme, misspelt ones too, up to the last @ of the word, or to the
# first one of the line: a password that should have been percent-encoded may hold anything. Digits
# and a slash are a port.
_IN_AUTHORITY = re.compile(
    r"(\b[a-z][a-z0-9+.-]*:/{1,3}[^\s:/?#@'\"]*:)(?!\d*(?:[/?#,\s'\"]|$))(?:\S+|[^\n@]+)(?=@)", re.I
)
_IN_QUERY = re.compile(rf"([?&](?:{_NAMES})=)[^&\s]+?(?=&|{_END})", re.I)

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
    rf"(?:{_NAMES})(?=:\s|:\d+:|['\"]:\s*[^\s'\"])"
)
_BARE = rf"(?:\\.|[^\s\\]|\\$)+?{_END}"
_NAMED = re.compile(
    rf"(?P<path>{_PATH})"
    rf"|(?P<name>(?:{_NAMES})\b(?:['\"]{_GAP}[,=:]|{_GAP}[=:]){_GAP}){_BLANKED}(?!\$\d)"
    rf"(?P<value>{_LITERAL.format('tag')}|{_BARE})"
    rf"|(?P<word>(?:{_NAMES})\b{_GAP})(?P<literal>{_LITERAL.format('mark')})",
    re.I | re.S,
)
_COMMAND = re.compile(r"(\bssl_passphrase_command\s*=\s*)(?=[^\s'\"])[^\n]+", re.I)
# PASSWORD %L, PASSWORD ' || …: any of the following text may be the password.
_COMPOSED = re.compile(rf"((?:{_NAMES})\b{_GAP}(?:%\d*\$?-?\d*[LsI]|'{_GAP}\|\|)).+", re.I | re.S)
# Stored verifiers of passwords (pg_authid.rolpassword).
_VERIFIER = re.compile(r"SCRAM-SHA-256\$[^\s'\"]+|\bmd5[0-9a-f]{32}\b")
_TELLTALE = re.compile(r":/|pass|pwd|scram|_secret|md5", re.I)


def blank(text: str) -> str:
    """Return ``text`` with every password in it replaced by ``***``."""
    if not _TELLTALE.search(text):
        return text
    text = _COMPOSED.sub(rf"\g<1> {BLANK}", text)
    text = _IN_AUTHORITY.sub(rf"\g<1>{BLANK}", text)
    text = _IN_QUERY.sub(rf"\g<1>{BLANK}", text)
    text = _COMMAND.sub(rf"\g<1>{BLANK}", text)
    text = _NAMED.sub(_blanked, text)
    return _VERIFIER.sub(BLANK, text)


def is_secret(key: str) -> bool:
    """True if ``key`` is the name of a secret."""
    return _SECRET_KEY.fullmatch(key) is not None


def _blanked(found: re.Match[str]) -> str:
    """Return the name unchanged, with ``***`` between the quotes of its value."""
    if found["path"]:
        return found[0]
    name, value = found["name"] or found["word"], found["value"] or found["literal"]
    opening = re.match(r"''(?=[^\s'])|(?:e|n|u&)?'|\"|\$\w*\$", value, re.I)
    quote = opening[0].lstrip("eEnNuU&") if opening else ""
    return f"{name}{quote}{BLANK}{quote}"
