"""Contents of the page of a story: each chapter with its expected and its actual ending, and luck.

Made from the run files of the chapters, each of which records its chapter of the spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.drill.model import DrillResult
from pgdyno.drill.storage import stored_drills
from pgdyno.drill.words import in_words
from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.drills import cut_charts
from pgdyno.report.charts.trials import chain_charts, pairs_chart
from pgdyno.report.page import _sections
from pgdyno.report.page._parts import Entry, Frame
from pgdyno.report.summary import RunSummary
from pgdyno.report.view import Banner, Tag
from pgdyno.report.words import accounts, headlines, prose, repeat, sentences, sessions
from pgdyno.report.words.diff import diff, differing_spec
from pgdyno.report.words.drills import cuts_table, drill_description
from pgdyno.report.words.sentences import expectation
from pgdyno.report.words.side_by_side import beside_rows, speed_rows, work_rows
from pgdyno.report.words.tables import Table, figures_table
from pgdyno.results.chapter import RecordedChapter, by_variant
from pgdyno.results.diff import LoadFigures

TEMPLATE = "story.html.j2"
CUTS_LISTED_MAX = 8
"""Number of cuts up to which each has a sentence, in addition to the table."""
_ENDINGS = {True: Tag("as expected", "good"), False: Tag("not as expected", "bad")}


class ChapterText(Struct, frozen=True):
    """Contents of one chapter."""

    number: int
    title: str
    tags: Sequence[Tag]
    remark: str
    results: Sequence[str]
    terms: Sequence[tuple[str, str]]
    luck: Sequence[str]
    banners: Sequence[Banner]
    cuts: Table | None
    beside: Table | None
    """Its figures beside those of an earlier chapter."""
    charts: Sequence[Chart]
    page_lines: Sequence[str]
    """The command that writes the chapter's own page."""


@dataclass(frozen=True)
class StoryPage(Frame):
    """Contents of the page."""

    overview: Table
    chapters: Sequence[ChapterText]

    @property
    def charts(self) -> list[Chart]:
        """All charts, in the order of the page."""
        return [chart for chapter in self.chapters for chart in chapter.charts]

    @property
    def contents(self) -> list[Entry]:
        """The chapters, and the sections after them."""
        chapters = [
            Entry(f"chapter-{each.number}", headlines.shortened(each.title))
            for each in self.chapters
        ]
        return [*chapters, Entry("facts", "The run"), Entry("repeat", "Repeat it")]


def make_page(runs: Sequence[RunFile]) -> StoryPage:
    """Return the contents of the page of the chapters ``runs``.

    Raises UsageError if a run is not a chapter, or if they are chapters of several stories.
    """
    runs = sorted(runs, key=lambda run: _chapter_of(run).number)
    chapters = [_chapter_of(run) for run in runs]
    first, spec = runs[0], chapters[0].of
    name = first.run.name
    _check_one_story(runs)
    distrusted = [bool(RunSummary(run).distrust) for run in runs]
    planned = len(spec.get("story") or chapters)
    verdict, lead = headlines.headline_of(_verdict(chapters, planned, distrusted))
    description = prose.sentence(spec.get("description", ""))
    return StoryPage(
        name=name,
        pgdyno_version=first.run.pgdyno_version,
        run_file=numbers.listed([run.path.name for run in runs], most=None),
        subtitle=[*sentences.setting_of_run(first.run), sentences.started_at(first.run)],
        title=headlines.title_of(name, verdict),
        verdict=verdict,
        lead=" ".join(part for part in (lead, description) if part),
        headline=[],
        banners=[],
        own=[],
        overview=_overview(chapters, distrusted),
        chapters=[
            _chapter(run, chapter, _earlier(runs[:number], run))
            for number, (run, chapter) in enumerate(zip(runs, chapters, strict=True))
        ],
        facts=accounts.fact_tables(first),
        repeat_text=f"Without a run file, save this spec as {name}.toml:",
        spec_command=[f"pgdyno story {name}.toml"],
        spec_lines=accounts.spec_lines(spec or first.run.spec),
        repeat_lines=[repeat.story_command(first.path)],
    )


def _check_one_story(runs: Sequence[RunFile]) -> None:
    """Raise UsageError if the runs are chapters of several stories."""
    first = runs[0]
    for run in runs[1:]:
        if run.run.name != first.run.name:
            raise UsageError(
                f"{run.path} is of the story {run.run.name}, and {first.path} is of"
                f" {first.run.name}",
                code="several-stories",
                hint="a page shows one story",
            )


def _chapter_of(run: RunFile) -> RecordedChapter:
    summary = RunSummary(run)
    if summary.chapter is None:
        unreadable = "; its recorded result cannot be read" if summary.result_unreadable else ""
        raise UsageError(
            f"{run.path} is not a chapter of a story{unreadable}",
            code="no-chapter",
            hint="the page of a story is made from the run files of pgdyno story",
        )
    return summary.chapter


def _verdict(chapters: Sequence[RecordedChapter], planned: int, distrusted: Sequence[bool]) -> str:
    """Return how many chapters of the story are done, ended as expected, and are not trusted."""
    expected = [chapter for chapter in chapters if chapter.as_expected is not None]
    good = sum(bool(chapter.as_expected) for chapter in expected)
    count = (
        f"{len(chapters)} of {planned} chapters done"
        if planned > len(chapters)
        else f"{planned} chapters"
    )
    not_trusted = f"; {sum(distrusted)} not trusted" if any(distrusted) else ""
    if not expected:
        return f"{count}, without an expected ending{not_trusted}"
    lucky = sum(bool(chapter.luck) for chapter in chapters)
    luck = f", luck played a part in {lucky}" if lucky else ""
    return f"{count}: {good} of {len(expected)} as expected{luck}{not_trusted}"


def _overview(chapters: Sequence[RecordedChapter], distrusted: Sequence[bool]) -> Table:
    rows = [
        [
            f"{chapter.number}  {chapter.title}",
            by_variant(chapter.endings),
            expectation(chapter) or numbers.ABSENT,
            "yes" if chapter.luck else "",
            "no" if not_trusted else "yes",
        ]
        for chapter, not_trusted in zip(chapters, distrusted, strict=True)
    ]
    head = ["Chapter", "ending", "expected", "luck", "trusted"]
    return Table("All chapters", head, rows)


def _chapter(run: RunFile, chapter: RecordedChapter, earlier: RunFile | None) -> ChapterText:
    drills = stored_drills(run) if run.run.command == "drill" else []
    summary = RunSummary(run)
    expected = chapter.as_expected
    charts = cut_charts(drills[0]) if drills else list(_comparison_charts(run, summary))
    return ChapterText(
        number=chapter.number,
        title=f"{chapter.number}. {chapter.title}",
        tags=[
            Tag(by_variant(chapter.endings)),
            *([_ENDINGS[expected]] if expected is not None else []),
        ],
        remark=chapter.remark,
        results=[prose.sentence(sentence) for sentence in _results(run, summary, drills, chapter)],
        terms=[(t, text) for t, text in _terms(summary, drills, chapter) if text],
        luck=[prose.sentence(sentence) for sentence in chapter.luck],
        banners=_sections.banners(run, summary, with_chapter=False),
        cuts=cuts_table(drills[0]) if drills else None,
        beside=None if earlier is None else _beside(earlier, run),
        charts=[replace(chart, id=f"chapter-{chapter.number}-{chart.id}") for chart in charts],
        page_lines=[f"pgdyno report {run.path.name}"],
    )


def _results(
    run: RunFile, summary: RunSummary, drills: Sequence[DrillResult], chapter: RecordedChapter
) -> Iterator[str]:
    """Yield the results in sentences; one for each cut of a drill with few cuts, and for each
    finding that a run was to have."""
    if summary.single_run is not None and summary.before is not None:
        yield sentences.throughput_words(run, summary)
        yield sessions.sentence(run, summary.before.slice_ids)
        said = {each.id: each.sentence for each in summary.findings}
        yield from (said[name] for name in chapter.endings if name in said)
    if summary.comparison is not None:
        yield sentences.comparison_sentence(summary.comparison)
    for drill in drills:
        yield drill.summary().sentence
        if len(drill.cuts) <= CUTS_LISTED_MAX:
            yield from (f"cut {cut.number}: {in_words(cut)}" for cut in drill.cuts)


def _terms(
    summary: RunSummary, drills: Sequence[DrillResult], chapter: RecordedChapter
) -> Iterator[tuple[str, str]]:
    compared = summary.comparison
    if compared is not None:
        for label, words in sentences.level_words(compared).items():
            yield prose.capital(label), ", ".join(words)
    for drill in drills:
        yield "Fault", drill_description(drill)
        yield "Documented", drill.bound
    yield "Expected", expectation(chapter)


def _earlier(runs: Sequence[RunFile], run: RunFile) -> RunFile | None:
    """Return the last of ``runs`` that is a single run of the same load as ``run``, which differs
    in what the two chapters vary; None if there is none."""
    last = next((each for each in reversed(runs) if each.run.command == "run"), None)
    if last is None or run.run.command != "run":
        return None
    keys = {different.key for different in differing_spec(last, run)}
    return last if keys and keys <= {*_varied(last), *_varied(run)} else None


def _varied(run: RunFile) -> Iterable[str]:
    chapter = _chapter_of(run)
    story = chapter.of.get("story") or []
    return story[chapter.number - 1].get("vary") or () if chapter.number <= len(story) else ()


def _beside(earlier: RunFile, run: RunFile) -> Table | None:
    """Return the figures of two runs of one load; None without a finished transaction."""
    try:
        figures = diff(earlier, run).figures
    except UsageError:
        return None
    if not isinstance(figures, LoadFigures):
        return None
    a, b = (f"chapter {_chapter_of(each).number}" for each in (earlier, run))
    rows = [*speed_rows(figures), *work_rows(figures.work)]
    rows += [[f"{text}, ms", *times] for text, *times in beside_rows(figures.beside)]
    caption = "Beside the earlier chapter, not in pairs: other load may have differed too"
    return figures_table(caption, ["", a, b, "ratio"], rows)


def _comparison_charts(run: RunFile, summary: RunSummary) -> Iterator[Chart]:
    yield from chain_charts(summary)
    if pairs := pairs_chart(run, summary):
        yield pairs
