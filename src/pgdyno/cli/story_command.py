"""Run the chapters of a spec: comparisons, drills and runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from pgdyno.cli.files import chapter_path, page_path, run_path
from pgdyno.cli.grouping import taking_options
from pgdyno.cli.options import OutputWithPage, ProgressOptions
from pgdyno.cli.output import print_csv, print_result
from pgdyno.errors import PgdynoError, partial_results

if TYPE_CHECKING:
    from pgdyno.results.story import FinishedChapter, StoryResult
    from pgdyno.spec import Spec

HELP_ORDER = 70


@click.command("story")
@taking_options
def command(
    spec_path: Annotated[
        Path,
        click.argument("spec_path", metavar="SPEC.toml|RUN.db", type=click.Path(path_type=Path)),
    ],
    only: Annotated[
        int | None,
        click.option("--only", type=click.IntRange(1), metavar="N", help="Run only chapter N."),
    ],
    output: OutputWithPage,
    progress: ProgressOptions,
) -> None:
    """Run the chapters of a spec: comparisons, drills and runs.

    Each chapter ([[story]]) has its own run file, named after -o and its number; one HTML page
    shows all of them. The exit status is 3 if the outcome of a chapter differs from the one that
    the spec expects, and 4 if a chapter cannot be trusted.

    \b
      pgdyno demo --copy scenarios
      pgdyno story scenarios/wal-on-ram.toml
    """
    from pgdyno.cli.screen import watching
    from pgdyno.conduct import read_spec_or_run
    from pgdyno.report import stdout_console
    from pgdyno.report.terminal.story import print_chapter
    from pgdyno.scenario.story import check_outcomes, run_story

    spec, text = read_spec_or_run(spec_path, story=True)
    base = run_path(output.output, spec.name)
    printed = _Output(spec, output.output_format, base, page_path(output.report, base))
    try:
        with watching(progress, metrics=spec.metrics) as watcher:
            for chapter in run_story(
                spec,
                spec_text=text,
                watcher=watcher,
                path_of=lambda number: chapter_path(base, number),
                only=only,
            ):
                printed.chapters.append(chapter)
                if printed.format == "text":
                    print_chapter(chapter, stdout_console())
    except BaseException as problem:
        with suppress(PgdynoError):
            printed.finish()
        partial_results(problem).so_far = printed.result().to_json()
        raise
    printed.finish()
    if printed.format == "json":
        print_result("json", base, printed.result().to_json())
    check_outcomes(printed.chapters)


@dataclass
class _Output:
    """The chapters that were finished, and their page."""

    spec: Spec
    format: str
    base: Path
    page: Path
    chapters: list[FinishedChapter] = field(default_factory=list)
    _written: Path | None = None

    def finish(self) -> None:
        """Write the page of the finished chapters, and print its path or the chapters as CSV."""
        from pgdyno.report.rows import chapter_rows

        if not self.chapters:
            return
        self._written = _write_page(self.chapters, self.page)
        if self.format == "text":
            click.echo(f"page    {self.page}")
        elif self.format == "csv":
            print_csv(chapter_rows(self.chapters))

    def result(self) -> StoryResult:
        """Return the result of the finished chapters."""
        from pgdyno.scenario.story import story_result

        return story_result(self.spec, self.chapters, self._written)


def _write_page(chapters: Sequence[FinishedChapter], page: Path) -> Path:
    from pgdyno.record import RunFile
    from pgdyno.report import write_story

    with ExitStack() as stack:
        runs = [stack.enter_context(RunFile(chapter.run_file)) for chapter in chapters]
        return write_story(runs, page)
