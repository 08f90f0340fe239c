"""The HTML report: one file that needs no network, made from a run file alone.

Scripts, styles and data are in the file; a content security policy forbids it to fetch anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pgdyno.files import write_whole
from pgdyno.record import RunFile
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.clients import client_charts
from pgdyno.report.charts.latency import budget_chart
from pgdyno.report.charts.over_time import time_charts
from pgdyno.report.charts.price import price_chart
from pgdyno.report.charts.time_axis import Clockwork, clockwork
from pgdyno.report.charts.trials import chain_charts, pairs_chart, waits_chart
from pgdyno.report.page import _drill, _sections, _story
from pgdyno.report.page._drill import DrillPage
from pgdyno.report.page._page_path import check_page_place, unwritable
from pgdyno.report.page._parts import Page
from pgdyno.report.page._story import StoryPage
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import accounts, headlines, numbers, price_list, repeat, sentences
from pgdyno.report.words.course import course_in
from pgdyno.visible import visible

UNIT_GAP = re.compile(r"(?<=\d) (?=%|(?:ms|µs|s|min|tps|B|kB|MB|GB|TB)\b)")


def write_html(run: RunFile, path: Path | str) -> Path:
    """Writes the report of ``run`` to ``path`` and returns it.

    Raises SetupError if it cannot, UsageError if something else is there.
    """
    return _write(Path(path), lambda: render(run))


def write_story(runs: Sequence[RunFile], path: Path | str) -> Path:
    """Writes the one page of the chapters ``runs`` to ``path`` and returns it.

    Raises as :func:`write_html`, and UsageError for what are no chapters of one story.
    """
    return _write(Path(path), lambda: render_story(runs))


def _write(path: Path, made: Callable[[], str]) -> Path:
    check_page_place(path)
    page = made().encode()
    try:
        write_whole(path, page)
    except OSError as problem:
        raise unwritable(path, problem) from None
    return path


def render(run: RunFile) -> str:
    """The report of ``run`` as the text of one HTML file."""
    if run.run.command == "drill":
        return _rendered(_drill.make_page(run), _drill.TEMPLATE)
    return _rendered(make_page(run), "report.html.j2")


def render_story(runs: Sequence[RunFile]) -> str:
    """The page of the chapters ``runs`` as the text of one HTML file."""
    return _rendered(_story.make_page(runs), _story.TEMPLATE)


def _rendered(page: Page | DrillPage | StoryPage, template: str) -> str:
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


def make_page(run: RunFile) -> Page:
    """Everything that the report says."""
    story = RunSummary(run)
    course = course_in(run, story)
    clock = clockwork(run, course)
    info = story.info
    verdict, lead = headlines.headline_and_rest(story)
    ledger, compared = run.ledger(), story.comparison
    measured = story.after.slice_ids if story.after else None
    rates = accounts.open_loop_sentences(run, measured)
    return Page(
        name=info.name,
        pgdyno_version=info.pgdyno_version,
        run_file=run.path.name,
        subtitle=[*sentences.setting_of_run(info, story.connected), sentences.started_at(info)],
        verdict=verdict,
        title=headlines.title_of(info.name, verdict),
        lead=lead,
        figures_first=info.command == "run",
        headline=_sections.headline(run, story),
        banners=_sections.banners(run, story),
        noise=_labelled("Noise floor", sentences.noise_sentence(story)),
        comparison=numbers.sentence(sentences.comparison_sentence(compared)) if compared else "",
        failures=_labelled("Failures", sentences.failure_words(run, compared)) if compared else "",
        void=numbers.sentence(sentences.void_words(run)),
        steps=_sections.step_texts(story),
        closing=_sections.closing(story),
        findings=_sections.finding_cards(story),
        cleared=_sections.verdict_table(story.findings, "cleared"),
        skipped=_sections.verdict_table(story.findings, "skipped"),
        prices=_sections.price_cards(story),
        ladder=price_list.tables(story),
        ladder_says=price_list.sentences(story),
        ladder_p99=_labelled("p99", price_list.p99_words(story)),
        ladder_against=[numbers.sentence(said) for said in price_list.differences(story)],
        zooms=_sections.zooms(run, story, clock.marks.end_ms),
        absent=_sections.unmeasured(run),
        course=_sections.course_texts(course) if course else [],
        rates=[f"{name}: {said}." for name, said in rates.items()],
        groups=accounts.groups_table(run, measured),
        connects=accounts.connects_table(run, measured),
        latency=accounts.latency_table(run, story),
        statements=accounts.statements_table(run, story),
        ledger=accounts.ledger_table(ledger) if ledger.intended else None,
        ledger_says=accounts.ledger_sentence(ledger),
        errors=accounts.errors_table(run.errors()),
        generator=accounts.generator_table(run),
        generator_says=numbers.sentence(accounts.generator_words(run)),
        facts=accounts.fact_tables(run),
        repeat_says=repeat.repeat_says(info),
        spec_lines=accounts.spec_lines(info.spec),
        spec_command=[repeat.spec_command(info)],
        repeat_lines=repeat.repeat_lines(info, run.path),
        **_charts(run, story, clock),
    )


def _charts(run: RunFile, story: RunSummary, clock: Clockwork) -> dict[str, list[Chart]]:
    ladder = [chart] if (chart := price_chart(story)) else []
    several = (pairs_chart(run, story), waits_chart(run, story))
    return {
        "ladder_charts": ladder,
        "step_charts": _present(chain_charts(story), several) if _has_steps(story) else [],
        "time_charts": time_charts(clock),
        "client_charts": client_charts(run),
        "budget_charts": [chart] if (chart := budget_chart(run, story)) else [],
    }


def _has_steps(story: RunSummary) -> bool:
    """Whether the page has a section for charts of what was tried."""
    return bool(story.steps or story.comparison)


def _present(charts: Sequence[Chart], several: Sequence[Chart | None]) -> list[Chart]:
    return [*charts, *(chart for chart in several if chart)]


def _labelled(label: str, text: str) -> str:
    return f"{label}: {numbers.sentence(text)}" if text else ""


def _embed(charts: Sequence[Chart]) -> tuple[Markup, dict[str, Markup]]:
    """The script that draws all charts in one bokeh document, and each chart's place."""
    if not charts:
        return Markup(""), {}
    from bokeh.document import Document
    from bokeh.embed import components

    document = Document()
    with document.models.freeze():  # else bokeh walks through all charts again for each
        for chart in charts:
            document.add_root(chart.plot)
    script, divs = components({chart.id: chart.plot for chart in charts})
    return Markup(script), {name: Markup(div) for name, div in divs.items()}


def _bokeh_js() -> Markup:
    """Bokeh's core script, whole; its widgets, tables and WebGL parts are not needed."""
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
        finalize=_fit,
    )
    environment.filters["nobreak"] = _with_units_kept
    return environment


def _fit(value: object) -> object:
    """Text of others as a page may show it; what is markup already is ours."""
    return visible(value) if type(value) is str else value


def _with_units_kept(text: str) -> str:
    """A number and its unit stay on one line."""
    return UNIT_GAP.sub("\N{NO-BREAK SPACE}", text)


def _verbatim(name: str) -> Markup:
    """A file of the templates folder, as it is."""
    source, *_ = _templates().loader.get_source(_templates(), name)  # type: ignore[union-attr]
    return Markup(source)
