"""Headlines: one or two lines, with the whole text below them if it was shortened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.report.summary import RunSummary
from pgdyno.report.words import numbers
from pgdyno.report.words.cutting import cut

LETTERS_MAX = 90
_ENDS = ("; ", ", ", ": ")
_PAIRS = (("(", ")"), ("[", "]"))


def headline_and_rest(summary: RunSummary) -> tuple[str, str]:
    """Return the verdict as a headline, and the text below it ('' for none)."""
    figures = _figures_of_a_run(summary)
    if figures:
        return figures, numbers.sentence(_limit(summary))
    return headline_of(summary.verdict)


def headline_of(whole: str) -> tuple[str, str]:
    """Return ``whole`` as a headline and the text below it: the clauses that the headline leaves
    out, or all of ``whole`` if the headline ends within a clause."""
    headline = shortened(whole)
    if headline == whole:
        return numbers.capital(headline), ""
    rest = whole.removeprefix(headline)
    left_out = rest[1:] if rest.startswith("; ") and rest[1:].strip() else whole
    return numbers.capital(headline), numbers.sentence(left_out)


def title_of(name: str, headline: str) -> str:
    """Return the title of the page, for a tab or a bookmark."""
    return shortened(f"{name}: {headline}")


def shortened(text: str) -> str:
    """Return the part of ``text`` that fits a headline, up to the end of a clause if possible."""
    if len(text) <= LETTERS_MAX:
        return text
    for marks in (("; ",), _ENDS):
        if clauses := [text[:end] for end in _clause_ends(text, marks)]:
            return max(clauses, key=len)
    return cut(text, LETTERS_MAX)


def _clause_ends(text: str, marks: Sequence[str]) -> Iterator[int]:
    """Yield the ends of the clauses that fit a headline, unless they are very short or lie within
    parentheses. A parenthesis ends none: it belongs to what stands before it."""
    for mark in marks:
        end = text.rfind(mark, 0, LETTERS_MAX + 1)
        within = any(text.count(a, 0, end) > text.count(b, 0, end) for a, b in _PAIRS)
        if end >= LETTERS_MAX // 5 and not within:
            yield end


def _figures_of_a_run(summary: RunSummary) -> str:
    """Return throughput and p99 of a single run; '' for other commands and if no transaction was
    done."""
    if summary.info.command != "run" or summary.before is None:
        return ""
    figures = summary.before
    words = f"{numbers.tps(figures.throughput_tps)} transactions per second"
    if figures.latency_p99_ms is None:
        return words
    return f"{words}, 99 % within {numbers.ms(figures.latency_p99_ms)}"


def _limit(summary: RunSummary) -> str:
    """Return the limit of a single run, or its verdict if no limit was found."""
    return f"limit: {summary.limit.sentence}" if summary.limit else summary.verdict
