"""What stands in large letters: in a line or two, with the whole of it below where it was cut."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.report.summary import RunSummary
from pgdyno.report.words import numbers

LETTERS_MAX = 90
_ENDS = ("; ", ", ", ": ", " (")


def headline_and_rest(story: RunSummary) -> tuple[str, str]:
    """The verdict as a headline, and what else is to be said below it ('' for nothing)."""
    figures = _figures_of_a_run(story)
    if figures:
        return figures, numbers.sentence(_limit(story))
    return cut(story.verdict)


def cut(whole: str) -> tuple[str, str]:
    """``whole`` as a headline, and again below it as a sentence if it was too long."""
    said = shortened(whole)
    return numbers.capital(said), "" if said == whole else numbers.sentence(whole)


def title_of(name: str, headline: str) -> str:
    """The page's title, as a tab or a bookmark has it."""
    return shortened(f"{name}: {headline}")


def shortened(text: str) -> str:
    """``text``, or as much of it as fits a headline: up to the end of a clause if there is one."""
    if len(text) <= LETTERS_MAX:
        return text
    if clauses := [text[:end] for end in _clause_ends(text)]:
        return max(clauses, key=len)
    return f"{text[: LETTERS_MAX - 1].rsplit(' ', 1)[0].rstrip(',;:')}…"


def _clause_ends(text: str) -> Iterator[int]:
    """Where a clause ends within the room of a headline, and is more than a word or two."""
    for mark in _ENDS:
        end = text.rfind(mark, 0, LETTERS_MAX + 1)
        if end >= LETTERS_MAX // 3 and text.count("(", 0, end) == text.count(")", 0, end):
            yield end


def _figures_of_a_run(story: RunSummary) -> str:
    """Throughput and p99 of a single run; '' for other kinds, and where nothing was done."""
    if story.info.command != "run" or story.before is None:
        return ""
    figures = story.before
    tps, p99 = numbers.tps(figures.throughput_tps), numbers.ms(figures.latency_p99_ms)
    return f"{tps} transactions per second, 99 % within {p99}"


def _limit(story: RunSummary) -> str:
    """What held a single run back, as far as that is known."""
    if not story.limits:
        return story.verdict
    return f"limit: {story.limits[0].sentence}"
