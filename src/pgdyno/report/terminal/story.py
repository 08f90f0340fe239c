"""Terminal output of a story: its chapters, their endings, and where luck played a part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.report.terminal._lines import GAP, Line, labelled, print_lines, width_of, wrapped
from pgdyno.report.words.sentences import expectation, expected_words

if TYPE_CHECKING:
    from rich.console import Console

    from pgdyno.results.chapter import RecordedChapter
    from pgdyno.results.story import FinishedChapter

_LABELS = len(GAP) + len("not trusted")
_STYLES = {True: "green", False: "bold red", None: ""}


def print_chapter(chapter: FinishedChapter, console: Console | None) -> None:
    """Print a finished chapter of a story."""
    print_lines([*_finished_chapter_lines(chapter, width_of(console)), Line("")], console)


def chapter_lines(chapter: RecordedChapter | None, width: int) -> list[Line]:
    """Return the lines of a run's summary about the chapter that it is; none if it is none."""
    if chapter is None:
        return []
    style = _STYLES[chapter.as_expected]
    return [
        *labelled("chapter", f"{chapter.number}  {chapter.title}", width),
        *labelled("expected", expectation(chapter), width, style=style),
        *(
            line
            for sentence in chapter.luck
            for line in labelled("luck", sentence, width, style="yellow")
        ),
        *labelled("remark", chapter.remark, width, spare=True),
        Line(""),
    ]


def _finished_chapter_lines(chapter: FinishedChapter, width: int) -> list[Line]:
    title = f"{chapter.number}{GAP[1:]}{chapter.title}"
    lines = [Line(title, bold_to=len(title))]
    style = _STYLES[chapter.as_expected]
    for sentence in chapter.sentences:
        lines += wrapped(f"{GAP}{sentence}", width, indent=2 * len(GAP), style=style)
    if chapter.as_expected is False:
        lines += _indented("expected", expected_words(chapter.expected), width, style="bold red")
    for sentence in chapter.luck:
        lines += _indented("luck", sentence, width, style="yellow")
    for reason in chapter.distrust:
        lines += _indented("not trusted", reason, width, style="bold red")
    lines += _indented("remark", chapter.remark, width)
    return [*lines, *_indented("run", chapter.run_file, width)]


def _indented(label: str, text: str, width: int, *, style: str = "") -> list[Line]:
    return labelled(f"{GAP}{label}", text, width, style=style, label_width=_LABELS + len(GAP))
