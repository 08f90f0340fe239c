"""Lines of the terminal's summaries: laid out here, coloured by rich when they are printed.

A line too long goes on under its own text; what is not a terminal gets plain lines of a fixed
width.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from pgdyno.report.terminal._columns import laid_out
from pgdyno.visible import visible

ENDING_MIN = 5
"""Lines at the end that are always printed: the result stands there."""
LABEL_WIDTH = 12
GAP = "   "


@dataclass(frozen=True)
class Line:
    """One line as it is printed; ``spare`` ones go first when there are too many."""

    text: str
    style: str = ""
    bold_to: int = 0
    """So many letters from the left are bold."""
    spare: bool = False


def print_lines(lines: Iterable[Line], console: Console) -> None:
    """Prints lines; what they quote of others is shown, not obeyed."""
    for line in lines:
        text = Text(visible(line.text), style=line.style, no_wrap=True, overflow="ignore")
        text.stylize("bold", 0, line.bold_to)
        console.print(text, soft_wrap=True)


def without_double_blanks(lines: Sequence[Line]) -> list[Line]:
    pairs = zip([Line(""), *lines], lines, strict=False)
    return [line for before, line in pairs if line.text or before.text]


def fitted(lines: Sequence[Line], most: int) -> list[Line]:
    """At most ``most`` lines: spare ones go first, then the middle; what went is counted."""
    too_many = len(lines) - most
    if too_many <= 0:
        return list(lines)
    middle = range(len(lines) - ENDING_MIN)
    by_worth = sorted(middle, key=lambda number: (not lines[number].spare, -number))
    left_out = set(by_worth[: too_many + 1])  # one more, for the line that says so
    note = Line(f"{GAP}… and {len(left_out)} more lines, in the report", "dim")
    place = min(left_out)
    kept = [line for number, line in enumerate(lines) if number not in left_out]
    return [*kept[:place], note, *kept[place:]]


def wrapped(
    text: str, width: int, *, indent: int = 0, style: str = "", spare: bool = False,
    spare_rest: bool = False,
) -> list[Line]:  # fmt: skip
    """``text`` over as many lines as it needs, all but the first indented."""
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
    """A label and its text, which goes on under itself."""
    if not text:
        return []
    lines = wrapped(
        f"{label:<{label_width}}{text}", width, indent=label_width, style=style, spare=spare
    )
    return [Line(lines[0].text, style, bold_to=len(label), spare=spare), *lines[1:]]


def fields_beside(first: str, rest: Sequence[str], width: int, *, indent: int, style: str,
            spare: bool) -> list[Line]:  # fmt: skip
    """Fields beside each other; those that find no room go on in the next line."""
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
    """A table whose first head is its label."""
    if not rows:
        return []
    return [
        Line(text, bold_to=len(head[0]) if text.startswith(head[0]) else 0)
        for text in laid_out(head, rows, width, name_width=16)
    ]
