"""Statements with rows behind VALUES that clients do not prepare: a script has as many rows in them
as a variable says, so that the server parses them each time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

_ROWS = re.compile(
    r"(?i)(?<=\bvalues\b)\s*(\(\s*\$\d+(?:\s*,\s*\$\d+)*\s*\)"
    r"(?:\s*,\s*\(\s*\$\d+(?:\s*,\s*\$\d+)*\s*\))*)"
)
_ROW = re.compile(r"\([^()]*\)")
_PARAMETER = re.compile(r"\$(\d+)")


class SeveralRows(Struct, frozen=True):
    """A statement with rows of parameters behind VALUES."""

    text: str
    """With ``:rows`` in place of these."""
    parameters: tuple[tuple[int, ...], ...]
    """Of each row, by their numbers."""

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.parameters)

    def columns(self, values: Sequence[str]) -> str:
        """Return the columns of the rows, by the values of all parameters of the statement: each
        the same in all rows, or an expression."""
        by_column = zip(*self.parameters, strict=True)
        return ", ".join(_by_row([values[each - 1] for each in column]) for column in by_column)


def several_rows(text: str) -> SeveralRows | None:
    """Return the rows of a statement; None if it has others than such, or several times."""
    found = [*_ROWS.finditer(text)]
    if len(found) != 1:
        return None
    rows = tuple(tuple(map(int, _PARAMETER.findall(row))) for row in _ROW.findall(found[0][1]))
    whole = f"{text[: found[0].start()]} :rows{text[found[0].end() :]}"
    return SeveralRows(whole, rows) if len({*map(len, rows)}) == 1 else None


def _by_row(values: Sequence[str]) -> str:
    """Return the expression of a value by the number of the row, ``:row``."""
    *before, last = _until(values)
    if not before:
        return last[1]
    cases = (f"when :row <= {row} then {value}" for row, value in before)
    return f"case {' '.join(cases)} else {last[1]} end"


def _until(values: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the values, each once for the rows that follow each other, with the last of these."""
    row = -1
    for value, same in itertools.groupby(values):
        row += len([*same])
        yield row, value
