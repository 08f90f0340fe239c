"""Functions, triggers and expressions of a schema without values: comments and texts are removed,
other than those that are of the language or of the schema.

A body without its texts behaves as the one with them as long as no text decides: the names of
operations and columns do, as do units of time and short numbers, and these are kept. A number with
more than ``_DIGITS_MAX`` digits that count might be an account or a telephone; those that are
limits, factors and periods hardly have as many.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from pgdyno.capture._tokens import Token, tokens_of
from pgdyno.spec.sql_text import folded, literal

_DIGITS_MAX = 3
"""Digits of a number without zeros at its ends that are kept."""
_WORDS = """
INSERT UPDATE DELETE TRUNCATE BEFORE AFTER INSTEAD OF ROW STATEMENT
pg_catalog pg_temp public $user UTC on off true false yes no t f
millennium century decade year years quarter month months week weeks day days hour hours minute
minutes min mins second seconds sec secs millisecond milliseconds microsecond microseconds ms us
epoch dow doy isodow isoyear timezone
simple arabic armenian basque catalan danish dutch english finnish french german greek hindi
hungarian indonesian irish italian lithuanian nepali norwegian portuguese romanian russian
serbian spanish swedish tamil turkish yiddish
base64 hex escape utf8 UTF8 md5 sha1 sha224 sha256 sha384 sha512
null object array string number boolean
"""
LANGUAGE = frozenset(_WORDS.split())
"""Texts of the language: operations of triggers, settings, units, text search configurations,
encodings, types of JSON."""
_UNITS = r"(?:years?|mons?|months?|weeks?|days?|hours?|minutes?|mins?|seconds?|secs?|milliseconds?)"
_INTERVAL = re.compile(rf"(?i)(?:\s*-?\d{{1,3}}(?:\.\d)?\s*{_UNITS})+\s*")
_FORMAT = re.compile(
    r"(?:YYYY|YY|MM|Mon|MONTH|DD|DAY|Dy|HH24|HH12|HH|MI|SS|MS|US|IW|IYYY|WW|Q|FM|9|0|[^\w'])+"
)
"""Of to_char and to_date."""
_PLACE = re.compile(r"%(?:\d\$)?[sIL]?")
"""Place of a value in the texts of RAISE and format(), which have as many as there are values."""
_MARKS_MAX = 8
_PERIOD = re.compile(r"\d{4}-\d\d-\d\d.*", re.DOTALL)
_CODE = re.compile(r"[0-9A-Z]{5}")
"""Of an error."""
_STATE = re.compile(r"[0-9A-Z]{5}|[a-z_]+")
_FALLBACKS = {
    "json": "{}",
    "jsonb": "{}",
    "date": "2025-01-01",
    "timestamp": "2025-01-01",
    "timestamptz": "2025-01-01",
    "time": "00:00",
    "interval": "1 day",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "inet": "127.0.0.1",
    "numeric": "1",
    "integer": "1",
    "int": "1",
    "bigint": "1",
    "smallint": "1",
    "boolean": "true",
    "bytea": "",
}
"""A value of a type, in place of a text that is cast to it."""
_DYNAMIC = frozenset(("execute", "copy"))
_NEAR = 6
"""Tokens before a text, spaces too, among which its type may be."""


class Known(Struct, frozen=True):
    """Texts that are kept in code."""

    names: frozenset[str] = frozenset()
    """Of schemas, tables, columns and functions."""
    labels: Mapping[str, str] = {}
    """Label of an enum → the one that the clone has in its place."""

    def keeps(self, text: str) -> bool:
        """Return whether a text is of the language, or a name of the schema, with or without its
        schema."""
        if text in LANGUAGE or text.upper() in LANGUAGE:
            return True
        parts = text.split(".")
        return len(parts) <= 3 and all(each.strip('"') in self.names for each in parts)


def is_of_no_schema(text: str) -> bool:
    """Return whether a text of code without values is none of its schema's: one of the language, or
    one that is in place of another."""
    letters = {each for each in _PLACE.sub("", text) if each.isalpha()}
    is_known = text in LANGUAGE or text.upper() in LANGUAGE or _CODE.fullmatch(text) is not None
    return letters <= {"x"} or is_known or _is_plain(text)


def is_dynamic(body: str) -> bool:
    """Return whether a body executes statements that it makes, or COPY, which may start programs.
    Raises Unreadable."""
    return any(t.kind == "word" and t.text.lower() in _DYNAMIC for t in tokens_of(body))


def names_in(code: str) -> set[str]:
    """Return the names and words of SQL and of the bodies in it, as the server stores them. Raises
    Unreadable."""
    found = set()
    for each in tokens_of(code):
        if each.kind in ("word", "name"):
            found.add(folded(each.text))
        elif each.kind == "text" and each.text.startswith("$"):
            found |= names_in(_value(each.text))
    return found


def has_values(code: str) -> bool:
    """Return whether code has literals other than 0, 1 and the empty text. Raises Unreadable."""
    return any(
        each.text not in ("0", "1", "''")
        for each in tokens_of(code)
        if each.kind in ("text", "number")
    )


def without_literals(code: str, known: Known) -> str:
    """Return code without its comments, and with other literals in place of those that tell
    something. Raises Unreadable."""
    tokens = [*tokens_of(code)]
    written = (_written(tokens, place, known) for place in range(len(tokens)))
    return "".join(written).strip()


def definition(sql: str, known: Known) -> str:
    """Return a definition as pg_get_functiondef has it, whose body is a text in dollars. Raises
    Unreadable."""
    tokens = [*tokens_of(sql)]
    written = (
        _body(each, known)
        if each.kind == "text" and each.text.startswith("$")
        else _written(tokens, place, known)
        for place, each in enumerate(tokens)
    )
    return "".join(written).strip()


def _body(token: Token, known: Known) -> str:
    quote = token.text[: token.text.index("$", 1) + 1]
    body = without_literals(token.text[len(quote) : -len(quote)], known)
    return f"{quote}\n{body}\n{quote}"


def _written(tokens: Sequence[Token], place: int, known: Known) -> str:
    token = tokens[place]
    if token.kind == "comment":
        return " "
    if token.kind == "number":
        return _number(token.text)
    if token.kind == "text":
        return _text(tokens, place, known)
    return token.text


def _number(text: str) -> str:
    """Return a number, or one of as many digits in place of one that could be somebody's."""
    if len(text.replace(".", "").strip("0")) <= _DIGITS_MAX:
        return text
    whole, dot, _ = text.partition(".")
    return "1" + "0" * (len(whole) - 1) + (".0" if dot else "")


def _text(tokens: Sequence[Token], place: int, known: Known) -> str:
    """Return a text, or another in place of one that could be somebody's."""
    written = tokens[place].text
    if written[0] in "bBxX":
        return written[:2] + re.sub(r"\w", "0", written[2:])
    if written[0] in "uU":
        return "U&" + literal(_letters(written[3:-1].replace("\\", "")))
    value = _value(written)
    before, after = _words_before(tokens, place), _type_after(tokens, place)
    if label := known.labels.get(value):
        return literal(label)
    if known.keeps(value) or _is_plain(value) or _is_state(value, before):
        return literal(value)
    if before[:2] == ["zone", "time"]:
        return "'UTC'"
    fallback = _FALLBACKS.get(after) or _FALLBACKS.get(before[0] if before else "")
    return literal(fallback if fallback is not None else _in_place_of(value))


def _value(written: str) -> str:
    """Return the value of a text; with escapes as they are written."""
    if written.startswith("$"):
        return written[(end := written.index("$", 1) + 1) : -end]
    return written[written.index("'") + 1 : -1].replace("''", "'")


def _is_plain(value: str) -> bool:
    """Return whether a text tells of nobody: marks, short intervals, formats of times."""
    is_marks = len(value) <= _MARKS_MAX and re.search(r"[\w\\]", value) is None
    return is_marks or bool(_INTERVAL.fullmatch(value) or _FORMAT.fullmatch(value))


def _is_state(value: str, before: Sequence[str]) -> bool:
    """Return whether a text is the name of an error."""
    return bool(before) and before[0] in ("sqlstate", "errcode") and bool(_STATE.fullmatch(value))


def _in_place_of(value: str) -> str:
    for begins, ends in ("{}", "[]"):
        if value.startswith(begins) and value.endswith(ends):
            return begins + ends
    return "2025-01-01" if _PERIOD.fullmatch(value) else _letters(value)


def _letters(value: str) -> str:
    """Return as many letters, with the places of values where they are."""
    at, parts = 0, []
    for found in _PLACE.finditer(value):
        parts += ["x" * (found.start() - at), found[0]]
        at = found.end()
    return "".join(parts) + "x" * (len(value) - at)


def _words_before(tokens: Sequence[Token], place: int) -> list[str]:
    """Return the two tokens before one, the next first; of an assignment its name."""
    nearest = reversed(tokens[max(0, place - _NEAR) : place])
    passed_over = ("space", "comment")
    meant = [each.text for each in nearest if each.kind not in passed_over]
    return [each.lower() for each in meant if each not in ("=", ":")][:2]


def _type_after(tokens: Sequence[Token], place: int) -> str:
    """Return the name of the type to which a text is cast."""
    first = [each.text for each in tokens[place + 1 : place + 4]]
    return first[2].lower() if first[:2] == [":", ":"] and len(first) == 3 else ""
