"""The lines of a terminal summary about what a comparison has in addition to its pairs: two
versions, or the lines of a profile."""

from __future__ import annotations

from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._lines import Line, labelled, table_lines
from pgdyno.report.words import profile, versions
from pgdyno.results.compare import CompareResult


def compared_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the lines about a profile, or about two versions; none for any other change."""
    found = versions.versions_of(summary.result)
    if found is None:
        return _profile_lines(summary.profile, width)
    lines = [Line(""), *table_lines(versions.head(found), versions.rows(found), width)]
    for label, text in versions.sentences(summary.result, tabled=False).items():
        lines += labelled(label, text, width)
    return lines


def _profile_lines(result: CompareResult | None, width: int) -> list[Line]:
    """Return the lines of a profile with their effects, the shortest one, and what is said; none
    without a profile."""
    if result is None:
        return []
    lines = table_lines(profile.HEAD, profile.rows(result), width)
    for label, text in profile.sentences(result).items():
        lines += labelled(label, text, width)
    if result.shortest:
        lines += [Line(""), *(Line(text) for text in result.shortest.splitlines())]
    return [Line(""), *lines] if lines else []
