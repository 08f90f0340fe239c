"""Layout of terminal summaries: their lines, which Rich colours when they are printed, and tables
of figures, names on the left and figures right-aligned.

A long line continues under its own text. Output that is not a terminal has plain lines of a fixed
width, for which Rich is not loaded. Columns without figures are left out; those that do not fit the
width continue in a second table below, with the same names.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno.escaping import visible_line
from pgdyno.report.view import Terms
from pgdyno.report.words.prose import cut

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ENDING_MIN = 5
"""Number of lines at the end that are always printed, because they have the result."""
LABEL_WIDTH = 12
PLAIN_WIDTH = 120
"""Width of output that is not a terminal."""
GAP = "   "
_COLUMN_GAP = 2
_NOTHING = ("", "0", "—")


class Line(Struct, frozen=True):
    """A line of output; ``spare`` lines are the first to be left out if there are too many."""

    text: str
    style: str = ""
    bold_to: int = 0
    """Number of letters from the left that are bold."""
    spare: bool = False


def width_of(console: Console | None) -> int:
    """Return the width that lines for ``console`` have; None: plain output."""
    return console.width if console is not None and console.is_terminal else PLAIN_WIDTH


def print_lines(lines: Iterable[Line], console: Console | None) -> None:
    """Print lines, with control characters in quoted text escaped; without a console as plain text
    on stdout."""
    for line in lines:
        if console is None:
            print(visible_line(line.text))
        else:
            console.print(rendered(line), soft_wrap=True)


def rendered(line: Line) -> Text:
    """Return a line for rich, with control characters in quoted text escaped."""
    from rich.text import Text

    text = Text(visible_line(line.text), style=line.style, no_wrap=True, overflow="ignore")
    text.stylize("bold", 0, line.bold_to)
    return text


def without_double_blanks(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with at most one blank line in a row, and none at the start."""
    pairs = zip([Line(""), *lines], lines, strict=False)
    return [line for before, line in pairs if line.text or before.text]


def limited(lines: Sequence[Line], lines_max: int) -> list[Line]:
    """Return at most ``lines_max`` lines and a note with the number of those left out: spare lines
    first, then lines before the end."""
    too_many = len(lines) - lines_max
    if too_many <= 0:
        return list(lines)
    middle = range(len(lines) - ENDING_MIN)
    in_order = sorted(middle, key=lambda number: (not lines[number].spare, -number))
    left_out = set(in_order[: too_many + 1])  # one more, for the note
    note = Line(f"{GAP}… and {len(left_out)} more lines in the report", "dim")
    first = min(left_out)
    rest = [line for number, line in enumerate(lines) if number not in left_out]
    return [*rest[:first], note, *rest[first:]]


def wrapped(
    text: str, width: int, *, indent: int = 0, style: str = "", spare: bool = False,
    spare_rest: bool = False,
) -> list[Line]:  # fmt: skip
    """Return ``text`` as lines, all except the first indented."""
    pieces = textwrap.wrap(
        text, max(width, indent + 20), subsequent_indent=" " * indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return [
        Line(piece, style, spare=spare or (spare_rest and number > 0))
        for number, piece in enumerate(pieces)
    ]


def labelled(label: str, text: str, width: int, *, style: str = "", spare: bool = False,
              label_width: int = LABEL_WIDTH) -> list[Line]:  # fmt: skip
    """Return a label and its text, which continues under itself; no lines for empty text."""
    if not text:
        return []
    lines = wrapped(
        f"{label:<{label_width}}{text}", width, indent=label_width, style=style, spare=spare
    )
    return [Line(lines[0].text, style, bold_to=len(label), spare=spare), *lines[1:]]


def command_lines(label: str, commands: Sequence[str], width: int) -> list[Line]:
    """Return a label and commands, each on a line of its own; the first continues under itself."""
    lines = labelled(label, commands[0], width, label_width=10, spare=True) if commands else []
    return [*lines, *(Line(f"{'':10}{each}", spare=True) for each in commands[1:])]


def term_lines(terms: Terms, width: int) -> list[Line]:
    """Return sentences by their labels."""
    lines = []
    for each in terms.terms:
        label_width = (terms.label_width or LABEL_WIDTH) + each.indent
        text = cut(each.text, width - label_width) if each.in_one_line else each.text
        lines += labelled(
            each.label, text, width, style=each.style, spare=each.spare, label_width=label_width
        )
    return lines


def fields_beside(first: str, rest: Sequence[str], width: int, *, indent: int, style: str,
            spare: bool) -> list[Line]:  # fmt: skip
    """Return fields side by side; those that do not fit continue on the next line."""
    lines, current = [], first
    for part in rest:
        if not part:
            continue
        if len(current) + len(GAP) + len(part) > width and current.strip():
            lines.append(current)
            current = " " * (indent - len(GAP))
        current += GAP + part
    lines.append(current)
    return [
        piece for line in lines
        for piece in wrapped(line, width, indent=indent, style=style, spare=spare)
    ]  # fmt: skip


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[Line]:
    """Return the lines of a table whose first head is its label."""
    if not rows:
        return []
    return [
        Line(text, bold_to=len(head[0]) if text.startswith(head[0]) else 0)
        for text in column_lines(head, rows, width, name_width=16)
    ]


def column_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, name_width: int = 0
) -> list[str]:
    """Return the lines of a table whose first column holds names, at least ``name_width`` wide."""
    shown = [
        column for column in range(1, len(head)) if any(row[column] not in _NOTHING for row in rows)
    ]
    widths = {
        column: max(len(head[column]), *(len(row[column]) for row in rows)) + _COLUMN_GAP
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
