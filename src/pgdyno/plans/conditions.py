"""The comparisons in a condition of EXPLAIN, as ``((item.id)::numeric = '5'::numeric)``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

TRIED_INDEX = "pgdyno_usable"
"""Name of an index that is made to try whether a condition can use it."""
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[()\[\]]|[^'"()\[\]]""", re.DOTALL)
_OPERATOR = re.compile(r"\s([<>=~!@#%^&|`?*/+-]+)\s")
_NULL = re.compile(r"(?s)(.+)\sIS NULL")
_NAME = r'(?:[A-Za-z_][\w$]*|"(?:[^"]|"")+")'
_FLAG = re.compile(rf"(?:NOT )?({_NAME}\.{_NAME})")
IS = "IS"
"""Operator of a condition that is a column, IS NULL or a truth value, and no comparison."""
ORDERED = ("=", "<=", ">=", "<", ">")
PATTERNS = ("~~", "~~*", "~", "~*")
_CALL = re.compile(r'(?:[\w$]+|"(?:[^"]|"")+")(?=\()')
_NO_CALLS = frozenset(("any", "array", "and", "case", "in", "not", "or", "row", "values"))


class Comparison(Struct, frozen=True):
    """Two sides of an operator, in parentheses where they are."""

    left: str
    operator: str
    right: str
    """Empty behind ``IS``."""

    def sides(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return each side with the other."""
        return (self.left, self.right), (self.right, self.left)


def comparisons(condition: str) -> Iterator[Comparison]:
    """Yield the comparisons that all have to be true; what is below OR or NOT is left out."""
    text = _bare(condition)
    parts = _split(text, re.compile(r"\sAND\s"))
    if len(parts) > 1:
        for part in parts:
            yield from comparisons(part)
        return
    sides = _split(text, _OPERATOR)
    if len(sides) == 3:
        yield Comparison(_bare(sides[0]), sides[1], _bare(sides[2]))
    elif (test := _NULL.fullmatch(text) or _FLAG.fullmatch(text)) is not None and len(sides) == 1:
        yield Comparison(_bare(test[1]), IS, "")


def all_comparisons(condition: str) -> Iterator[Comparison]:
    """Yield the comparisons of a condition, also those of which one has to be true."""
    text = _bare(condition)
    parts = _split(text, re.compile(r"\s(?:AND|OR)\s"))
    if len(parts) == 1:
        yield from comparisons(text)
        return
    for part in parts:
        yield from all_comparisons(part)


def alternatives(condition: str) -> list[str]:
    """Return the conditions of which one has to be true; a single one without OR."""
    return _split(_bare(condition), re.compile(r"\sOR\s"))


def functions_in(expression: str) -> set[str]:
    """Return the names, without schema, of what looks like functions that it calls."""
    found = {name.strip('"') for name in _CALL.findall(_without_texts(expression))}
    return {name for name in found if name.lower() not in _NO_CALLS}


def names_in(expression: str) -> set[str]:
    """Return the names that an expression has, as SQL has them; among them its columns."""
    plain = re.sub(r"'(?:[^']|'')*'(?:::[\w ]+)?", "", expression)
    return set(re.findall(_NAME, plain))


def has_columns(expression: str) -> bool:
    """Return whether an expression may depend on a column."""
    return bool(names_in(expression) - functions_in(expression))


def refers_to(expression: str, alias: str) -> bool:
    """Return whether an expression has a column of the relation of this alias."""
    return re.search(_prefix(alias), _without_texts(expression)) is not None


def columns_of(expression: str, alias: str) -> set[str]:
    """Return the columns of the relation of this alias in an expression, as SQL has them."""
    return set(re.findall(rf"{_prefix(alias)}({_NAME})", _without_texts(expression)))


def plain_columns(expressions: Iterable[str]) -> set[str]:
    """Return the names, without a relation's, of the expressions that are columns."""
    found = (re.fullmatch(rf"(?:{_NAME}\.)?({_NAME})", each) for each in expressions)
    return {each[1] for each in found if each is not None}


def without_alias(expression: str, alias: str) -> str:
    """Return an expression with the columns of one relation as an index names them."""
    return re.sub(_prefix(alias), "", expression)


def _prefix(alias: str) -> str:
    return rf'(?<![\w."])(?:{re.escape(alias)}|"{re.escape(alias)}")\.'


def _without_texts(expression: str) -> str:
    return re.sub(r"'(?:[^']|'')*'", "''", expression)


def _bare(text: str) -> str:
    """Return a text without parentheses around all of it."""
    text = text.strip()
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    """Return the place of the parenthesis that closes the first one."""
    depth = 0
    for found in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            return found.start()
    return -1


def _split(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Split a text where ``pattern`` matches outside of parentheses and quotes; its groups are
    parts too."""
    hidden, depth = [], 0
    for found in _TOKEN.finditer(text):
        depth -= found[0] in ")]"
        is_open = not depth and len(found[0]) == 1 and found[0] not in "()[]"
        hidden.append(found[0] if is_open else "x" * len(found[0]))
        depth += found[0] in "(["
    plain, parts, start = "".join(hidden), [], 0
    for match in pattern.finditer(plain):
        parts += [text[start : match.start()], *match.groups()]
        start = match.end()
    return [*parts, text[start:]]
