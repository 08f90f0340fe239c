"""Scripts in which the update of a table is the last statement before COMMIT.

A transaction holds the rows that it has updated until it ends, so that an update which comes last
holds its row for the shortest time. Only the text of a script is changed, for the load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from pgdyno.spec.sql_text import RELATION, is_commit, mentions, names_table

_UPDATE = rf"(?is)update\s+(?:only\s+)?({RELATION})(?![\w$.])(?!.*\breturning\b)"
_BEGINS = r"(?i)(?:begin|start\s+transaction)\b"
_META_COMMAND = "\\"


class LateUpdate(Struct, frozen=True):
    """A script with an update moved to the end of its transaction."""

    text: str
    place: int
    """Position of the update among the statements of the script as it was."""
    end: int
    """Position of the statement that ends the transaction."""


def late_update(script: str, table: str) -> LateUpdate | None:
    """Return the script with the update of ``table`` moved to just before COMMIT.

    None if that is not possible or changes nothing: there is not one transaction block, the table
    is not mentioned in one statement of it alone, that is no update or returns rows, or something
    that is not a statement (a meta command) stands between it and COMMIT.
    """
    from pgdyno._engine import check_script

    statements: list[str] = check_script(script, "script")["statements"]
    starts = _starts(script, statements)
    begins = [n for n, text in enumerate(statements) if re.match(_BEGINS, text)]
    ends = [n for n, text in enumerate(statements) if is_commit(text)]
    if starts is None or len(begins) != 1 or len(ends) != 1:
        return None
    end = ends[0]
    mentioning = [n for n in range(begins[0] + 1, end) if mentions(statements[n], table)]
    if len(mentioning) != 1 or mentioning[0] == end - 1:
        return None
    place = mentioning[0]
    update = re.match(_UPDATE, statements[place])
    if update is None or not names_table(update[1], table):
        return None
    if _META_COMMAND in script[starts[place] : starts[end]]:
        return None
    first, after, last = starts[place], starts[place + 1], starts[end]
    text = script[:first] + script[after:last] + script[first:after] + script[last:]
    return LateUpdate(text, place, end)


def _starts(script: str, statements: Sequence[str]) -> list[int] | None:
    """Return the offset of each statement; None if one is not found unchanged."""
    starts, place = [], 0
    for text in statements:
        start = script.find(text, place)
        if start < 0:
            return None
        starts.append(start)
        place = start + len(text)
    return starts
