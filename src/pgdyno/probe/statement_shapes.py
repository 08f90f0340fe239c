"""Shapes of statements: their text without values, and with the page of a web front end."""

from __future__ import annotations

import re
from functools import lru_cache

NOT_SHAPE = re.compile(
    r"""
      (?P<name> " (?: [^"] | "" )* (?: " | \Z ) )                   # quoted name: kept
    | (?P<comment> -- [^\n]* | /\* .*? (?: \*/ | \Z ) )
    | \$(?P<tag>\w*)\$ .*? (?: \$(?P=tag)\$ | \Z )                 # dollar-quoted text
    | [eEbBxXnN]? ' (?: [^'\\] | \\. | '' )* (?: ' | \\? \Z )     # text, possibly truncated
    | (?<! [\w$.] ) [0-9]+ (?: \.[0-9]* )? (?: [eE][+-]?[0-9]+ )? (?! \w )   # number, not $1
    """,
    re.VERBOSE | re.DOTALL,
)
SPACE = re.compile(r"\s+")
_PAGE = re.compile(r"/\* (/[a-z]*) \*/")
"""The comment at the beginning of a statement of pgdyno's web front end: the page that sends it."""


@lru_cache(maxsize=4096)
def statement_shape(text: str) -> str:
    """Return a statement with ``?`` for each literal, no comments and single spaces.

    Statements that differ only in their values have the same shape, which has no values. Parameters
    of prepared statements (``$1``) are kept. A text truncated within a literal ends there.
    """
    return SPACE.sub(" ", NOT_SHAPE.sub(_without_value, text)).strip()


def page_of(text: str) -> str:
    """Return the page of a web front end that sent a statement, such as ``/order``; '' if the
    statement does not begin with it."""
    found = _PAGE.match(text)
    return found[1] if found else ""


def shape_with_page(text: str) -> str:
    """Return the shape of a statement, after the comment with its page if it begins with one."""
    page = page_of(text)
    return f"/* {page} */ {statement_shape(text)}" if page else statement_shape(text)


def _without_value(part: re.Match[str]) -> str:
    if part["name"]:
        return part[0]
    return " " if part["comment"] else "?"
