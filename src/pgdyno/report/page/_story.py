"""Contents of the page of a story: each chapter with its expected and its actual ending, and luck.

Made from the run files of the chapters, each of which records its chapter of the spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from pgdyno import numbers
from pgdyno.drill.model import in_words
from pgdyno.drill.storage import stored_drills
from pgdyno.errors import UsageError
from pgdyno.record import RunFile
from pgdyno.report.charts.chart import Chart
from pgdyno.report.charts.drills import cut_charts
from pgdyno.report.charts.trials import chain_charts, pairs_chart
from pgdyno.report.page import _sections
from pgdyno.report.page._parts import Frame
from pgdyno.report.summary import RunSummary
from pgdyno.report.view import (
    Banner,
    Bullets,
    Charts,
    Commands,
    OnPage,
    Part,
    Section,
    Tag,
    Tags,
    Term,
    Terms,
    Text,
)
from pgdyno.report.words import accounts, headlines, prose, repeat, sentences, sessions
from pgdyno.report.words.diff import diff, differing_spec
from pgdyno.report.words.drills import cuts_table, drill_description
from pgdyno.report.words.plans import replanned_table
from pgdyno.report.words.sentences import expectation
from pgdyno.report.words.side_by_side import beside_rows, speed_rows, work_rows
from pgdyno.report.words.tables import Table, figures_table
from pgdyno.results.chapter import RecordedChapter, by_variant
from pgdyno.results.diff import LoadFigures
from pgdyno.results.drill import Drill

CUTS_LISTED_MAX = 8
"""Number of cuts up to which each has a sentence, in addition to the table."""
_ENDINGS = {True: Tag("as expected", "good"), False: Tag("not as expected", "bad")}


def make_page(runs: Sequence[RunFile]) -> Frame:
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
    sections = [
        Section("overview", "", [_overview(chapters, distrusted)]),
        *(
            _chapter(run, chapter, _earlier(runs[:number], run))
            for number, (run, chapter) in enumerate(zip(runs, chapters, strict=True))
        ),
    ]
    ours = {
        "run_file": numbers.listed([run.path.name for run in runs], most=None),
        "repeat_text": f"Without a run file, save this spec as {name}.toml:",
        "spec_command": [f"pgdyno story {name}.toml"],
        "spec_lines": accounts.spec_lines(spec or first.run.spec),
        "repeat_lines": [repeat.story_command(first.path)],
    }
    lead = " ".join(part for part in (lead, description) if part)
    own = [*map(_sections.section_of, sections)]
    frame = _sections.frame(RunSummary(first), verdict, lead) | ours
    return Frame(headline=[], banners=[], own=own, **frame)


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
    return Table("All chapters", head, rows, wide=True)


def _chapter(run: RunFile, chapter: RecordedChapter, earlier: RunFile | None) -> Section:
    drills = stored_drills(run) if run.run.command == "drill" else []
    summary = RunSummary(run)
    id_ = f"chapter-{chapter.number}"

    def charts() -> list[Chart]:
        found = cut_charts(drills[0]) if drills else _comparison_charts(run, summary)
        return [replace(chart, id=f"{id_}-{chart.id}") for chart in found]

    ending = [_ENDINGS[chapter.as_expected]] if chapter.as_expected is not None else []
    results = [prose.sentence(each) for each in _results(run, summary, drills, chapter)]
    luck = [Banner("Luck played a part.", prose.sentence(sentence)) for sentence in chapter.luck]
    beside = [] if earlier is None else [*_beside(earlier, run)]
    parts: list[Part] = [
        Tags([Tag(by_variant(chapter.endings)), *ending]),
        *([OnPage(Text(chapter.remark))] if chapter.remark else []),
        *_sections.banners(run, summary, with_chapter=False),
        *luck,
        Bullets(results),
        Terms([*_terms(summary, drills, chapter)], as_written=True),
        Charts(charts),
        *([OnPage(cuts_table(drills[0]))] if drills else []),
        *map(OnPage, beside),
        OnPage(Text("To write the full page of this chapter:", small=True)),
        OnPage(Commands([f"pgdyno report {run.path.name}"])),
    ]
    return Section(id_, f"{chapter.number}. {chapter.title}", parts)


def _results(
    run: RunFile, summary: RunSummary, drills: Sequence[Drill], chapter: RecordedChapter
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
        yield drill.summary.sentence
        if len(drill.cuts) <= CUTS_LISTED_MAX:
            yield from (f"cut {cut.number}: {in_words(cut)}" for cut in drill.cuts)


def _terms(
    summary: RunSummary, drills: Sequence[Drill], chapter: RecordedChapter
) -> Iterator[Term]:
    compared = summary.comparison
    if compared is not None:
        for label, words in sentences.level_words(compared).items():
            yield Term(label, ", ".join(words))
    for drill in drills:
        yield Term("Fault", drill_description(drill))
        yield Term("Documented", drill.bound)
    yield Term("Expected", expectation(chapter))


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


def _beside(earlier: RunFile, run: RunFile) -> Iterator[Table]:
    """Yield the figures of two runs of one load, and the statements whose plan differs; nothing
    without a finished transaction."""
    try:
        figures = diff(earlier, run).figures
    except UsageError:
        return
    if not isinstance(figures, LoadFigures):
        return
    a, b = (f"chapter {_chapter_of(each).number}" for each in (earlier, run))
    rows = [*speed_rows(figures), *work_rows(figures.work)]
    rows += [[f"{text}, ms", *times] for text, *times in beside_rows(figures.beside)]
    caption = "Beside the earlier chapter, not in pairs: other load may have differed too"
    yield replace(figures_table(caption, ["", a, b, "ratio"], rows), wide=True)
    if differing := replanned_table(figures.plans, a, b):
        yield differing


def _comparison_charts(run: RunFile, summary: RunSummary) -> Iterator[Chart]:
    yield from chain_charts(summary)
    if pairs := pairs_chart(run, summary):
        yield pairs
