"""Tables of figures for the terminal: names on the left, figures right-aligned.

Columns without figures are left out. Columns that do not fit the width continue in a second table
below, with the same names.
"""

from __future__ import annotations

from collections.abc import Sequence

GAP = 2
NOTHING = ("", "0", "—")


def column_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, name_width: int = 0
) -> list[str]:
    """Return the lines of a table whose first column holds names, at least ``name_width`` wide."""
    shown = [
        column for column in range(1, len(head)) if any(row[column] not in NOTHING for row in rows)
    ]
    widths = {
        column: max(len(head[column]), *(len(row[column]) for row in rows)) + GAP
        for column in shown
    }
    names = max(name_width, *(len(text) for text in (head[0], *(row[0] for row in rows))))
    lines: list[str] = []
    for block in _even_blocks(shown, widths, width - names):
        for cells in (head, *rows):
            figures = "".join(f"{cells[column]:>{widths[column]}}" for column in block)
            lines.append(f"{cells[0]:<{names}}{figures}".rstrip())
    return lines


def _even_blocks(shown: Sequence[int], widths: dict[int, int], room: int) -> list[list[int]]:
    """Return as few blocks as fit the width, with the columns distributed evenly."""
    blocks = _blocks(shown, widths, room)
    for narrower in range(room - 1, 0, -1):
        even = _blocks(shown, widths, narrower)
        if len(even) > len(blocks):
            break
        blocks = even
    return blocks


def _blocks(shown: Sequence[int], widths: dict[int, int], room: int) -> list[list[int]]:
    """Return the columns in blocks that fit the width; a block has at least one column."""
    blocks: list[list[int]] = [[]]
    used = 0
    for column in shown:
        if blocks[-1] and used + widths[column] > room:
            blocks.append([])
            used = 0
        blocks[-1].append(column)
        used += widths[column]
    return blocks
