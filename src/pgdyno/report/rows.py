"""Rows of a result for ``--format csv``: no nested values, the same columns in every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.json_types import Row
from pgdyno.report.view import found_view
from pgdyno.results import load

if TYPE_CHECKING:
    from pgdyno.record import RunFile
    from pgdyno.results.story import FinishedChapter


def result_rows(run: RunFile) -> Iterator[Row]:
    """Return the rows of the command that recorded ``run``; of one that did not finish, those that
    it has. Raises UsageError where the rows come from a result that is not there."""
    view = found_view(run.run.command)
    result = load(run) if view and view.rows else None
    if view and view.rows and result is not None:
        return view.rows(result)
    if view and view.measured_rows:
        return view.measured_rows(run)
    raise UsageError(
        f"{run.path} contains no result of pgdyno {run.run.command} to print as CSV",
        code="no-result",
        hint="--format json prints what was measured",
    )


def chapter_rows(chapters: Sequence[FinishedChapter]) -> Iterator[Row]:
    """Yield one row per outcome of the chapters of a story."""
    for chapter in chapters:
        for variant, ending in chapter.endings.items():
            yield {
                "chapter": chapter.number,
                "title": chapter.title,
                "variant": variant,
                "ending": ending,
                "as_expected": chapter.as_expected,
                "run_file": chapter.run_file,
            }
