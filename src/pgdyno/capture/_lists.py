"""Rows and arrays of parameters in the text of a statement: VALUES lists and unnest."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from pgdyno.spec.sql_text import NAME, folded

_PLACE = re.compile(r"\$(\d+)")
_PARAMETER = re.compile(r"\(*\$(\d+)\)*(?:::[^$]*)?", re.DOTALL)
_VALUES = re.compile(r"(?i)\bvalues\s*(?=\()")
_UNNEST = re.compile(rf"(?i)\bunnest\s*\(([^()]*)\)\s*(?:as\s+)?({NAME})(?:\s*\(([^()]*)\))?")
_PART = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[][(),]|[^]['"(),]+""", re.DOTALL)
Lists: TypeAlias = "Mapping[tuple[str, str], list[int]]"
"""Alias and column of rows in a statement, and the parameters that they have, in order."""


def lists_of(text: str, of_values: Sequence[str]) -> Lists:
    """Return the lists of a statement in whose plan VALUES have these aliases."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    if len(of_values) == 1:
        for row in rows_of_values(text):
            for place, numbers in enumerate(row, 1):
                found[of_values[0], f"column{place}"] += numbers
    for arrays, alias, columns in _UNNEST.findall(text):
        names = columns.split(",") if columns else [alias]
        for name, array in zip(names, arrays.split(","), strict=False):
            found[folded(alias), folded(name.strip())] += _numbers(array)
    return found


def rows_of_values(text: str) -> list[list[list[int]]]:
    """Return the rows behind the first VALUES of a statement, with the parameter that each of their
    expressions is, if it is one."""
    found = _VALUES.search(text)
    return [*_rows(text[found.end() :])] if found else []


def _rows(text: str) -> Iterator[list[list[int]]]:
    depth, row = 0, [""]
    for part in _PART.findall(text):
        depth -= part in (")", "]")
        if depth == 0 and part == ")":
            yield [_plain(each) for each in row]
            row = [""]
        elif depth == 0 and part not in "(,":
            if part.strip():
                return
        elif depth == 1 and part == ",":
            row.append("")
        elif depth:
            row[-1] += part
        depth += part in ("(", "[")


def _plain(expression: str) -> list[int]:
    """Return the parameter that an expression is; none of one that computes with some."""
    found = _PARAMETER.fullmatch(expression.strip())
    return [int(found[1])] if found else []


def _numbers(text: str) -> list[int]:
    return [int(each) for each in _PLACE.findall(text)]
