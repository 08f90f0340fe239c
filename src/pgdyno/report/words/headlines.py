"""Headlines: one or two lines, with the whole text below them if it was shortened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.report.summary import RunSummary
from pgdyno.report.words import prose
from pgdyno.report.words.prose import cut

LETTERS_MAX = 90
_CLAUSE = "; "
_ENDS = (_CLAUSE, ", ", ": ")
_PAIRS = (("(", ")"), ("[", "]"))


def headline_and_rest(summary: RunSummary) -> tuple[str, str]:
    """Return the verdict as a headline, and the text below it ('' for none)."""
    if headline := summary.view.headline(summary):
        return headline, prose.sentence(_limit(summary))
    return headline_of(summary.verdict)


def headline_of(whole: str) -> tuple[str, str]:
    """Return ``whole`` as a headline and the text below it: the clauses that the headline leaves
    out, or all of ``whole`` if the headline ends within a clause."""
    if len(whole) <= LETTERS_MAX:
        return prose.capital(whole), ""
    end, mark = _last_clause(whole)
    rest = whole[end + len(mark) :] if mark == _CLAUSE else ""
    return prose.capital(shortened(whole)), prose.sentence(rest if rest.strip() else whole)


def title_of(name: str, headline: str) -> str:
    """Return the title of the page, for a tab or a bookmark."""
    return shortened(f"{name}: {headline}")


def shortened(text: str) -> str:
    """Return the part of ``text`` that fits a headline, up to the end of a clause if possible."""
    if len(text) <= LETTERS_MAX:
        return text
    end, mark = _last_clause(text)
    return text[:end] if mark else cut(text, LETTERS_MAX)


def _last_clause(text: str) -> tuple[int, str]:
    """Return the end of the last clause that fits a headline and the mark that ends it; '' for none
    that fits."""
    for marks in ((_CLAUSE,), _ENDS):
        if ends := list(_clause_ends(text, marks)):
            return max(ends)
    return 0, ""


def _clause_ends(text: str, marks: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the ends of the clauses that fit a headline, with their marks, unless they are very
    short or lie within parentheses. A parenthesis ends none: it belongs to what stands before it.
    """
    for mark in marks:
        end = text.rfind(mark, 0, LETTERS_MAX + 1)
        within = any(text.count(a, 0, end) > text.count(b, 0, end) for a, b in _PAIRS)
        if end >= LETTERS_MAX // 5 and not within:
            yield end, mark


def _limit(summary: RunSummary) -> str:
    """Return the limit of a single run, or its verdict if no limit was found."""
    return f"limit: {summary.limit.sentence}" if summary.limit else summary.verdict
