"""The lines of a terminal summary about a price list, and about the sides of a comparison."""

from __future__ import annotations

from pgdyno.record import RunFile
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._lines import (
    Line,
    command_lines,
    labelled,
    table_lines,
)
from pgdyno.report.terminal._own_sections import own_lines
from pgdyno.report.view import views
from pgdyno.report.words import price_list, sentences

NAME_MAX = 22
"""Maximum length of a candidate's name in a price list; the full title follows below."""


def price_lines(run: RunFile, summary: RunSummary, width: int) -> list[Line]:
    """Return the tables of gains and losses, then a sentence for each candidate."""
    lines = labelled("noise", sentences.noise_sentence(summary), width)
    gains = price_list.gain_rows(summary, name_max=NAME_MAX)
    lines += [Line(""), *table_lines(price_list.gain_head(summary), gains, width), Line("")]
    lines += [*_drill_table(summary, width), Line("")]
    for price in price_list.prices(summary):
        style = "" if price.durability_class == "D0" else "yellow"
        sentence = f"{price.title}: {'; '.join(price_list.sentence_parts(price))}"
        lines += labelled(price.durability_class, sentence, width, style=style, label_width=4)
    lines += [Line(""), *labelled("verdict", summary.verdict, width)]
    lines += labelled("p99", price_list.p99_words(summary), width)
    for number, sentence in enumerate(price_list.differences(summary)):
        lines += labelled("" if number else "compared", sentence, width)
    lines += labelled("time", sentences.time_taken(summary.info), width)
    return [*lines, *labelled("run file", str(run.path), width)]


def _drill_table(summary: RunSummary, width: int) -> list[Line]:
    """Return a row for each drill, named by its candidate and its fault."""
    rows = price_list.loss_rows(summary, name_max=NAME_MAX)
    if not rows:
        return []
    names = max(len(row[0]) for row in rows)
    joined = [[f"{name:<{names}}  {drill}", *cells] for name, drill, *cells in rows]
    return table_lines(price_list.LOSS_HEAD, joined, width)


def compared_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the lines about a profile, two versions or SQL; none for any other change."""
    own = [
        line
        for name in ("profile", "versions")
        for line in own_lines(views()[name], summary, width)
    ]
    return [*_applying_lines(summary, width), *([Line(""), *own] if own else [])]


def _applying_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the SQL of a comparison that was better with it, to be run for good; else none."""
    attempt = summary.comparison
    if attempt is None or not attempt.change.sql or attempt.outcome != "better":
        return []
    return [Line(""), *command_lines("to apply", attempt.assessment.lines_to_apply(), width)]
