"""The lines of a terminal summary about what a comparison has in addition to its pairs."""

from __future__ import annotations

from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._lines import Line, labelled, table_lines
from pgdyno.report.terminal._profile import profile_lines
from pgdyno.report.words import versions as words


def compared_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the lines about a profile, or about two versions; none for any other change."""
    found = words.versions_of(summary.result)
    if found is None:
        return profile_lines(summary.profile, width)
    lines = [Line(""), *table_lines(words.head(found), words.rows(found), width)]
    for label, text in words.sentences(summary.result, tabled=False).items():
        lines += labelled(label, text, width)
    return lines
