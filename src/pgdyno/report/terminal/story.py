"""A story in the terminal: its chapters, how each ended, where luck had a part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from pgdyno.report.terminal._lines import GAP, Line, labelled, print_lines, wrapped
from pgdyno.report.words.sentences import expectation, expected_words

PLAIN_WIDTH = 120
_LABELS = len(GAP) + 8
_STYLES = {True: "green", False: "bold red", None: ""}


def print_chapter(chapter: Mapping[str, Any], console: Console) -> None:
    """Print one chapter of a story's JSON result."""
    width = console.width if console.is_terminal else PLAIN_WIDTH
    print_lines(_chapter_lines(chapter, width), console)
    console.print()


def chapter_lines(result: Mapping[str, Any], width: int) -> list[Line]:
    """What the summary of a run says of the chapter that it is, none perhaps."""
    chapter = result.get("chapter")
    if not chapter:
        return []
    style = _STYLES[chapter["as_expected"]]
    return [
        *labelled("chapter", f"{chapter['number']}  {chapter['title']}", width),
        *labelled("expected", expectation(chapter), width, style=style),
        *(
            line
            for said in chapter["luck"]
            for line in labelled("luck", said, width, style="yellow")
        ),
        *labelled("remark", chapter["remark"], width, spare=True),
        Line(""),
    ]


def _chapter_lines(chapter: Mapping[str, Any], width: int) -> list[Line]:
    title = f"{chapter['number']}{GAP[1:]}{chapter['title']}"
    lines = [Line(title, bold_to=len(title))]
    style = _STYLES[chapter["as_expected"]]
    for sentence in chapter["sentences"]:
        lines += wrapped(f"{GAP}{sentence}", width, indent=2 * len(GAP), style=style)
    if chapter["as_expected"] is False:
        lines += _said("expected", expected_words(chapter["expected"]), width, style="bold red")
    for sentence in chapter["luck"]:
        lines += _said("luck", sentence, width, style="yellow")
    for reason in chapter["distrust"]:
        lines += _said("not trusted", reason, width, style="bold red")
    lines += _said("remark", chapter["remark"], width)
    return [*lines, *_said("run", chapter["run_file"], width)]


def _said(label: str, text: str, width: int, *, style: str = "") -> list[Line]:
    return labelled(f"{GAP}{label}", text, width, style=style, label_width=_LABELS + len(GAP))
