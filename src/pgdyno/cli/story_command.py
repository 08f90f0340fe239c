"""Run the chapters of a spec: comparisons and drills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

from pgdyno.cli.files import page_path, run_path
from pgdyno.cli.options import output_options
from pgdyno.cli.output import print_result
from pgdyno.errors import PgdynoError, ThresholdError, TrustError, left_by

HELP_ORDER = 70


@click.command("story")
@click.argument("spec_path", metavar="SPEC.toml|RUN.db", type=click.Path(path_type=Path))
@click.option("--only", type=click.IntRange(1), metavar="N", help="Run only chapter N.")
@output_options
def command(**given: Any) -> None:
    """Run the chapters of a spec: comparisons and drills.

    Each chapter ([[story]]) has its own run file, named after -o and its number; one HTML page
    shows all of them. The exit status is 3 if the outcome of a chapter differs from the one that
    the spec expects, and 4 if a chapter cannot be trusted.

    \b
      pgdyno story scenarios/wal-on-ram.toml
    """
    from pgdyno.cli.screen import watcher_for
    from pgdyno.conduct import read_spec_or_run
    from pgdyno.report import stdout_console
    from pgdyno.report.terminal.story import print_chapter
    from pgdyno.results.story import StoryResult
    from pgdyno.story import SCHEMA_VERSION, tell

    spec, text = read_spec_or_run(given["spec_path"], story=True)
    base = run_path(given["output"], spec.name)
    chapters: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "story": spec.name,
        "chapters": chapters,
    }
    as_text = given["output_format"] == "text"
    page = page_path(None, base)

    def finish() -> None:
        """Print and write the chapters that were finished, also after an error."""
        if not chapters:
            return
        result["page"] = str(_write_page(chapters, page))
        if as_text:
            click.echo(f"page    {page}")
        elif given["output_format"] == "csv":
            print_result("csv", base, result, _rows(result))

    try:
        with watcher_for(quiet=given["quiet"], every_s=given["progress"] / 1000) as watcher:
            for chapter in tell(
                spec,
                spec_text=text,
                watcher=watcher,
                path_of=lambda number: base.with_stem(f"{base.stem}-{number}"),
                only=given["only"],
            ):
                chapters.append(chapter.to_json())
                if as_text:
                    print_chapter(chapters[-1], stdout_console())
    except BaseException as problem:
        with suppress(PgdynoError):
            finish()
        left_by(problem).so_far = result
        raise
    finish()
    if given["output_format"] == "json":
        print_result("json", base, StoryResult.model_validate(result).to_json(), ())
    _judge(result)


def _write_page(chapters: Sequence[Mapping[str, Any]], page: Path) -> Path:
    from pgdyno.record import RunFile
    from pgdyno.report import write_story

    with ExitStack() as stack:
        runs = [stack.enter_context(RunFile(chapter["run_file"])) for chapter in chapters]
        return write_story(runs, page)


def _rows(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per ending, for CSV."""
    for chapter in result["chapters"]:
        for variant, ending in chapter["endings"].items():
            yield {
                "chapter": chapter["number"],
                "title": chapter["title"],
                "variant": variant,
                "ending": ending,
                "as_expected": chapter["as_expected"],
                "run_file": chapter["run_file"],
            }


def _judge(result: Mapping[str, Any]) -> None:
    """Raise TrustError for a chapter that cannot be trusted, ThresholdError for an unexpected
    outcome."""
    for chapter in result["chapters"]:
        if not chapter["trustworthy"]:
            raise TrustError(
                f"chapter {chapter['number']}, {chapter['title']}: the result cannot be trusted:"
                f" {'; '.join(chapter['distrust'])}",
                code="not-trustworthy",
                hint=f"pgdyno show {chapter['run_file']}",
            )
    other = [chapter for chapter in result["chapters"] if chapter["as_expected"] is False]
    if other:
        first = other[0]
        ended = ", ".join(f"{name} {end}".strip() for name, end in first["endings"].items())
        raise ThresholdError(
            f"chapter {first['number']}, {first['title']}: unexpected outcome: {ended}",
            code="story-otherwise",
            hint=f"pgdyno show {first['run_file']}",
        )
