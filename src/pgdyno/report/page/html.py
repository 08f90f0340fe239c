"""The HTML report: one file that needs no network, made only from a run file.

Scripts, styles and data are in the file; its content security policy forbids all requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pgdyno.escaping import visible
from pgdyno.files import write_whole
from pgdyno.record import RunFile
from pgdyno.report.charts.budget import parts_chart
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.clients import client_charts
from pgdyno.report.charts.latency import budget_chart
from pgdyno.report.charts.over_time import time_charts
from pgdyno.report.charts.time_axis import time_axis
from pgdyno.report.page import _sections, _story
from pgdyno.report.page._page_path import check_page_path, unwritable
from pgdyno.report.page._parts import Frame, Page
from pgdyno.report.summary import RunSummary
from pgdyno.report.view import Opening, view_of
from pgdyno.report.words import (
    accounts,
    budget,
    headlines,
    prose,
    sessions,
    statements,
    vacuums,
)
from pgdyno.report.words.course import course_in
from pgdyno.report.words.pooler import queue_words

UNIT_GAP = re.compile(r"(?<=\d) (?=%|(?:ms|µs|s|min|tps|B|kB|MB|GB|TB)\b)")


def write_html(run: RunFile, path: Path | str) -> Path:
    """Write the report of ``run`` to ``path`` and return it.

    Raises SetupError if it cannot be written, UsageError if another file has this path.
    """
    return _write(Path(path), lambda: render(run))


def write_story(runs: Sequence[RunFile], path: Path | str) -> Path:
    """Write the page of the chapters ``runs`` to ``path`` and return it.

    Raises as :func:`write_html`, and UsageError if the runs are not chapters of one story.
    """
    return _write(Path(path), lambda: render_story(runs))


def _write(path: Path, make: Callable[[], str]) -> Path:
    check_page_path(path)
    page = make().encode()
    try:
        write_whole(path, page)
    except OSError as problem:
        raise unwritable(path, problem) from None
    return path


def render(run: RunFile) -> str:
    """Return the report of ``run`` as the text of one HTML file. Raises UsageError if there is
    nothing to show."""
    opening = view_of(run.run.command).opening
    if opening is not None:
        return _rendered(_page_of_sections(run, opening), "base.html.j2")
    return _rendered(make_page(run), "report.html.j2")


def render_story(runs: Sequence[RunFile]) -> str:
    """Return the page of the chapters ``runs`` as the text of one HTML file."""
    return _rendered(_story.make_page(runs), "base.html.j2")


def _rendered(page: Frame, template: str) -> str:
    script, divs = _embed(page.charts)
    return (
        _templates()
        .get_template(template)
        .render(
            page=page,
            css=_verbatim("report.css"),
            js=_verbatim("report.js"),
            divs=divs,
            bokeh_js=_bokeh_js() if page.charts else "",
            bokeh_script=script,
        )
    )


def _page_of_sections(run: RunFile, opening_of: Callable[[RunSummary], Opening]) -> Frame:
    """Return the contents of the report of a command that has no load of its own."""
    summary = RunSummary(run)
    opening = opening_of(summary)
    frame = _sections.frame(summary, *headlines.headline_of(opening.verdict))
    if opening.repeat:
        frame |= {"spec_lines": [], "repeat_lines": opening.repeat}
    return Frame(
        headline=opening.figures,
        banners=[*opening.banners, *_sections.circumstances(summary)],
        own=_sections.own_sections(summary),
        **frame,
    )


def make_page(run: RunFile) -> Page:
    """Return the contents of the report of a load."""
    summary = RunSummary(run)
    course = course_in(run, summary)
    axis = time_axis(run, course)
    ledger, parts = run.ledger(), budget.budget_in(summary)
    measured = summary.after.slice_ids if summary.after else None
    rates = accounts.open_loop_sentences(run, measured)
    own = _sections.own_sections(summary)
    return Page(
        figures_first=summary.view.is_run,
        headline=_sections.headline(run, summary),
        banners=_sections.banners(run, summary),
        has_trials=bool(summary.steps or summary.comparison),
        findings=_sections.finding_cards(summary),
        cleared=_sections.verdict_table(summary.findings, "cleared"),
        skipped=_sections.verdict_table(summary.findings, "skipped"),
        prices=_sections.price_cards(summary),
        own=own,
        zooms=_sections.zooms(run, summary, axis.marks.end_ms),
        absent=_sections.unmeasured(run),
        course=_sections.course_texts(course) if course else [],
        rates=[f"{name}: {sentence}." for name, sentence in rates.items()],
        groups=accounts.groups_table(run, measured),
        connects=accounts.connects_table(run, measured),
        sessions=sessions.tables(run, measured),
        sessions_text=prose.sentence(f"on average {sessions.sentence(run, measured)}"),
        latency=accounts.latency_table(run, summary),
        statements=accounts.statements_table(run, summary),
        statements_text=accounts.statement_notes(run, summary),
        budget=budget.tables(parts) if parts else [],
        budget_text=budget.missing_sentence(parts) if parts else "",
        ledger=accounts.ledger_table(ledger) if ledger.intended else None,
        ledger_text=accounts.ledger_sentence(ledger),
        errors=accounts.errors_table(run.errors()),
        pooler_text=prose.sentence(queue_words(run, None)),
        generator=accounts.generator_table(run),
        generator_text=prose.sentence(accounts.generator_words(run)),
        **_sections.frame(summary, *headlines.headline_and_rest(summary)),
        **_of_one_command(summary),
        time_charts=time_charts(axis),
        budget_charts=[each for each in (parts_chart(parts), budget_chart(run, summary)) if each],
        client_charts=[] if any(section.by_clients for section in own) else client_charts(run),
    )


def _of_one_command(summary: RunSummary) -> dict[str, Any]:
    """Return the sections that only runs of one command have."""
    found = summary.single_run.vacuum if summary.single_run else None
    return {
        "server_statements": [
            prose.sentence(each) for each in statements.sentences(summary.server_statements)
        ],
        "server_statement_tables": statements.tables(summary.server_statements),
        "vacuum": [*_governor(summary), *vacuums.page_sentences(found)],
        "vacuum_tables": vacuums.tables(found),
    }


def _governor(summary: RunSummary) -> list[str]:
    """Return a sentence on the actions of a run's governor."""
    return [prose.sentence(summary.governor)] if summary.governor else []


def _embed(charts: Sequence[Chart]) -> tuple[Markup, dict[str, Markup]]:
    """Return the script that draws all charts in one bokeh document, and the div of each chart."""
    if not charts:
        return Markup(""), {}
    from bokeh.document import Document
    from bokeh.embed import components

    document = Document()
    with document.models.freeze():  # otherwise bokeh visits all charts again for each
        for chart in charts:
            document.add_root(chart.plot)
    script, divs = components({chart.id: chart.plot for chart in charts})
    return Markup(script), {name: Markup(div) for name, div in divs.items()}


def _bokeh_js() -> Markup:
    """Return bokeh's core script, without widgets, tables and WebGL."""
    from bokeh.resources import Resources

    return Markup(Resources(mode="inline", components=["bokeh"]).render_js())


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("pgdyno.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escaped,
    )
    environment.filters["nobreak"] = _with_units_kept
    return environment


def _escaped(value: object) -> object:
    """Return text with control characters escaped, and pgdyno's own markup unchanged."""
    return visible(value) if type(value) is str else value


def _with_units_kept(text: str) -> str:
    """Return text in which each number and its unit stay on one line."""
    return UNIT_GAP.sub("\N{NO-BREAK SPACE}", text)


def _verbatim(name: str) -> Markup:
    """Return a file of the templates directory unchanged."""
    source, *_ = _templates().loader.get_source(_templates(), name)  # type: ignore[union-attr]
    return Markup(source)
