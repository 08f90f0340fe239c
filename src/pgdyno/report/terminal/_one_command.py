"""The lines of a terminal summary that belong to one command alone: to age, branch, soak and price,
and to a comparison of two versions or of a profile."""

from __future__ import annotations

from pgdyno.record import RunFile
from pgdyno.report.summary import RunSummary
from pgdyno.report.terminal._lines import (
    Line,
    answer_lines,
    command_lines,
    labelled,
    labelled_sentences,
    table_lines,
)
from pgdyno.report.words import age, branch, price_list, profile, sentences, soak, versions
from pgdyno.results.age import AgeResult
from pgdyno.results.branch import BranchResult
from pgdyno.results.compare import CompareResult
from pgdyno.results.soak import SoakResult

NAME_MAX = 22
"""Maximum length of a candidate's name in a price list; the full title follows below."""


def age_lines(result: AgeResult, width: int) -> list[Line]:
    """Return the periods, the answer, and what is said of them."""
    return [
        *table_lines(age.HEAD, age.rows(result), width),
        *answer_lines(result.sentence, width),
        *labelled_sentences(age.sentences(result), width),
    ]


def branch_lines(result: BranchResult, width: int) -> list[Line]:
    """Return the branches, the answer, and what is said of them."""
    said = branch.sentences(result)
    label_width = max(len(label) for label in said) + 2
    return [
        *table_lines(branch.HEAD, branch.rows(result), width),
        *answer_lines(result.sentence, width),
        *labelled_sentences(said, width, label_width=label_width),
    ]


def soak_lines(result: SoakResult, width: int) -> list[Line]:
    """Return duration, gaps, changes, and the checks of validity."""
    lines = labelled_sentences(soak.sentences(result), width)
    for check in result.validity:
        label, style = ("valid", "") if check.passed else ("not valid", "bold red")
        label = "unknown" if check.passed is None else label
        lines += labelled(label, f"{check.name}: {check.sentence}", width, style=style)
    return [*lines, Line("")]


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
    found = versions.versions_of(summary.result)
    if found is None:
        return [*_applying_lines(summary, width), *_profile_lines(summary.profile, width)]
    return [
        Line(""),
        *table_lines(versions.head(found), versions.rows(found), width),
        *labelled_sentences(versions.sentences(summary.result, tabled=False), width),
    ]


def _applying_lines(summary: RunSummary, width: int) -> list[Line]:
    """Return the SQL of a comparison that was better with it, to be run for good; else none."""
    attempt = summary.comparison
    if attempt is None or not attempt.change.sql or attempt.outcome != "better":
        return []
    return [Line(""), *command_lines("to apply", attempt.assessment.lines_to_apply(), width)]


def _profile_lines(result: CompareResult | None, width: int) -> list[Line]:
    """Return the lines of a profile with their effects, the shortest one, and what is said; none
    without a profile."""
    if result is None:
        return []
    lines = table_lines(profile.HEAD, profile.rows(result), width)
    lines += labelled_sentences(profile.sentences(result), width)
    if result.shortest:
        lines += [Line(""), *(Line(text) for text in result.shortest.splitlines())]
    return [Line(""), *lines] if lines else []
