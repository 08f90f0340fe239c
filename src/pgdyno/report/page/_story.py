"""The one page of a story: each chapter with what was expected, what came of it, and its luck.

Made from the run files of the chapters, which each have what their chapter was told to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pgdyno.drill.storage import stored_drills
from pgdyno.drill.words import in_words
from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.drills import cut_charts
from pgdyno.report.charts.trials import chain_charts, pairs_chart
from pgdyno.report.page import _sections
from pgdyno.report.page._parts import Banner, Entry, Frame, Tag
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import accounts, headlines, numbers, repeat, sentences
from pgdyno.report.words.drills import CUT_HEAD, cut_cells, what_was_done
from pgdyno.report.words.sentences import expectation
from pgdyno.report.words.tables import Table

TEMPLATE = "story.html.j2"
CUTS_TOLD_MAX = 8
"""More cuts than these stand in the table alone."""
_ENDINGS = {True: Tag("as expected", "good"), False: Tag("otherwise than expected", "bad")}


@dataclass(frozen=True)
class ChapterText:
    """One chapter as the page sets it."""

    number: int
    title: str
    tags: Sequence[Tag]
    remark: str
    results: Sequence[str]
    terms: Sequence[tuple[str, str]]
    luck: Sequence[str]
    banners: Sequence[Banner]
    cuts: Table | None
    charts: Sequence[Chart]
    page_lines: Sequence[str]
    """The command that makes the chapter's own page."""


@dataclass(frozen=True)
class StoryPage(Frame):
    """Everything that the template sets."""

    overview: Table
    chapters: Sequence[ChapterText]

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return [chart for chapter in self.chapters for chart in chapter.charts]

    @property
    def contents(self) -> list[Entry]:
        """The chapters, and how to have them again."""
        told = [Entry(f"chapter-{each.number}", each.title) for each in self.chapters]
        return [*told, Entry("facts", "The run"), Entry("repeat", "Repeat it")]


def make_page(runs: Sequence[RunFile]) -> StoryPage:
    """Everything that the page of the chapters ``runs`` says.

    Raises UsageError for what is no chapter, or chapters of several stories.
    """
    runs = sorted(runs, key=lambda run: int(_chapter_of(run)["number"]))
    told = [_chapter_of(run) for run in runs]
    first = runs[0]
    of: Mapping[str, Any] = told[0].get("of") or {}
    name = first.run.name
    for run in runs[1:]:
        if run.run.name != name:
            raise UsageError(
                f"{run.path} is of the story {run.run.name}, and {first.path} of {name}",
                code="several-stories",
                hint="a page is of one story",
            )
    verdict, lead = headlines.cut(_verdict(told, len(of.get("story") or told)))
    return StoryPage(
        name=name,
        pgdyno_version=first.run.pgdyno_version,
        run_file=numbers.listed([run.path.name for run in runs]),
        subtitle=[*sentences.setting_of_run(first.run), sentences.started_at(first.run)],
        title=headlines.title_of(name, verdict),
        verdict=verdict,
        lead=" ".join(part for part in (lead, numbers.sentence(of.get("description", ""))) if part),
        headline=[],
        banners=[],
        overview=_overview(told),
        chapters=[_chapter(run, chapter) for run, chapter in zip(runs, told, strict=True)],
        facts=accounts.fact_tables(first),
        repeat_says=f"Without a run file, save this spec as {name}.toml:",
        spec_command=[f"pgdyno story {name}.toml"],
        spec_lines=accounts.spec_lines(of or first.run.spec),
        repeat_lines=[repeat.story_command(first.path)],
    )


def _chapter_of(run: RunFile) -> Mapping[str, Any]:
    chapter = run.run.result.get("chapter")
    if not isinstance(chapter, Mapping):
        raise UsageError(
            f"{run.path} is no chapter of a story",
            code="no-chapter",
            hint="the page of a story is made from the run files of pgdyno story",
        )
    return chapter


def _verdict(told: Sequence[Mapping[str, Any]], planned: int) -> str:
    """How many chapters ended as expected, and how many were not carried out."""
    expected = [chapter for chapter in told if chapter["as_expected"] is not None]
    good = sum(bool(chapter["as_expected"]) for chapter in expected)
    said = f"{len(told)} of {planned} chapters" if planned > len(told) else f"{planned} chapters"
    if not expected:
        return f"{said}, of which nothing was expected"
    lucky = sum(bool(chapter["luck"]) for chapter in told)
    luck = f"; luck had a part in {lucky}" if lucky else ""
    return f"{said}: {good} of {len(expected)} ended as expected{luck}"


def _overview(told: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            f"{chapter['number']}  {chapter['title']}",
            _endings(chapter),
            expectation(chapter) or numbers.ABSENT,
            "yes" if chapter["luck"] else "",
        ]
        for chapter in told
    ]
    return Table("All chapters", ["Chapter", "ended", "expected", "luck"], rows)


def _endings(chapter: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {end}".strip() for name, end in chapter["endings"].items())


def _chapter(run: RunFile, chapter: Mapping[str, Any]) -> ChapterText:
    number = int(chapter["number"])
    drills = stored_drills(run) if run.run.command == "drill" else []
    story = RunSummary(run)
    expected = chapter["as_expected"]
    charts = cut_charts(drills[0]) if drills else list(_comparison_charts(run, story))
    return ChapterText(
        number=number,
        title=headlines.shortened(f"{number}. {chapter['title']}"),
        tags=[Tag(_endings(chapter)), *([_ENDINGS[expected]] if expected is not None else [])],
        remark=chapter["remark"],
        results=[numbers.sentence(said) for said in _results(story, drills)],
        terms=[(t, text) for t, text in _terms(story, drills, chapter) if text],
        luck=[numbers.sentence(said) for said in chapter["luck"]],
        banners=[banner for banner in _sections.banners(run, story) if _is_own(banner)],
        cuts=_cuts(drills),
        charts=[replace(chart, id=f"chapter-{number}-{chart.id}") for chart in charts],
        page_lines=[f"pgdyno report {run.path.name}"],
    )


def _is_own(banner: Banner) -> bool:
    """Whether a banner is not about the chapter itself, of which the page has told."""
    return not (banner.head.startswith("Chapter ") or banner.head.startswith("Luck had"))


def _results(story: RunSummary, drills: Sequence[Any]) -> Iterator[str]:
    """What came of it, in sentences; of a drill one for each cut unless the table has them."""
    if story.comparison is not None:
        yield sentences.comparison_sentence(story.comparison)
    for drill in drills:
        yield drill.summary().sentence
        if len(drill.cuts) <= CUTS_TOLD_MAX:
            yield from (f"cut {cut.number}: {in_words(cut)}" for cut in drill.cuts)


def _terms(
    story: RunSummary, drills: Sequence[Any], chapter: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    compared = story.comparison
    if compared is not None and compared.throughput is not None:
        trial = compared.trial
        levels = f"{numbers.tps(trial.baseline_tps)} → {numbers.tps(trial.changed_tps)} tps"
        yield "Throughput", f"{compared.throughput}, {levels}, {trial.pairs} pairs"
        moved = numbers.from_to_ms(compared.p99_before_ms, compared.p99_after_ms)
        yield "p99", f"{compared.latency_p99}, {moved}"
    for drill in drills:
        yield "Done", what_was_done(drill)
        yield "Documented", drill.bound
    yield "Expected", expectation(chapter)


def _cuts(drills: Sequence[Any]) -> Table | None:
    if not drills:
        return None
    rows = [cut_cells(cut) for cut in drills[0].cuts]
    return Table("All cuts", CUT_HEAD, rows, right=frozenset(range(1, 9)) - {2})


def _comparison_charts(run: RunFile, story: RunSummary) -> Iterator[Chart]:
    yield from chain_charts(story)
    if pairs := pairs_chart(run, story):
        yield pairs
