"""Keeps passwords out of run files and messages: blanks them wherever they stand in a text.

A spec as written, a statement seen in pg_stat_activity, a setting, a server's message can carry a
password by no fault of ours. Rather too much is blanked than too little: where a password ends
cannot always be told.
"""

from __future__ import annotations

import re

_NAMES = (
    r"(?:ssl|pg)?passw(?:or)?d|passphrase|ssl_passphrase_command|pwd"
    r"|scram_(?:client|server)_key|oauth_client_secret"
)
"""libpq's parameters and variables, settings of the server, and their kin."""

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

# What a password can stand in: a literal of SQL (one that goes on in the next line and one cut
# short as well) or of TOML, JSON and conninfo strings; a conninfo string within a literal of SQL
# has its quotes doubled.
_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*\n)*"
_LITERAL = (  # to be given a name for the tag of a dollar quote
    r"(?:''(?=[^\s'])(?:[^'\\]|\\.|'(?!'))*(?:''|$)"
    r"|(?:e|n|u&)?'(?:[^'\\]|\\.|'')*(?:'|$)(?:[^\S\n]*\n\s*'(?:[^'\\]|\\.|'')*(?:'|$))*"
    r"|\"(?:[^\"\\]|\\.)*(?:\"|$)"
    r"|\$(?P<{0}>\w*)\$.*?(?:\$(?P={0})\$|$))"
)
# A path that ends in such a word and what is said of it: `/etc/passwd: Permission denied`,
# `"/etc/passwd":3: …`. Only a path from a root is told from a key for sure.
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
# PASSWORD %L, PASSWORD ' || …: what follows may be the password, wherever it stands.
_COMPOSED = re.compile(rf"((?:{_NAMES})\b{_GAP}(?:%\d*\$?-?\d*[LsI]|'{_GAP}\|\|)).+", re.I | re.S)
# What servers keep of a password (pg_authid.rolpassword).
_VERIFIER = re.compile(r"SCRAM-SHA-256\$[^\s'\"]+|\bmd5[0-9a-f]{32}\b")
_TELLTALE = re.compile(r":/|pass|pwd|scram|_secret|md5", re.I)


def blank(text: str) -> str:
    """``text`` with every password in it replaced by ``***``."""
    if not _TELLTALE.search(text):
        return text
    text = _COMPOSED.sub(rf"\g<1> {BLANK}", text)
    text = _IN_AUTHORITY.sub(rf"\g<1>{BLANK}", text)
    text = _IN_QUERY.sub(rf"\g<1>{BLANK}", text)
    text = _COMMAND.sub(rf"\g<1>{BLANK}", text)
    text = _NAMED.sub(_blanked, text)
    return _VERIFIER.sub(BLANK, text)


def is_secret(key: str) -> bool:
    """Whether what goes by the name ``key`` is a secret."""
    return _SECRET_KEY.fullmatch(key) is not None


def _blanked(found: re.Match[str]) -> str:
    """The name as it was, and for the value a blank between the quotes that it had."""
    if found["path"]:
        return found[0]
    name, value = found["name"] or found["word"], found["value"] or found["literal"]
    opening = re.match(r"''(?=[^\s'])|(?:e|n|u&)?'|\"|\$\w*\$", value, re.I)
    quote = opening[0].lstrip("eEnNuU&") if opening else ""
    return f"{name}{quote}{BLANK}{quote}"
