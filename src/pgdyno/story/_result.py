"""The result of a story, and the errors that decide the exit status of its command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pgdyno.errors import ThresholdError, TrustError
from pgdyno.results.chapter import by_variant
from pgdyno.results.story import FinishedChapter, StoryResult
from pgdyno.shapes import Json
from pgdyno.spec import Spec

SCHEMA_VERSION = 1


def story_result(
    spec: Spec, chapters: Sequence[FinishedChapter], page: Path | None = None
) -> StoryResult:
    """Return the result of the chapters that were finished; without ``page``, it has no page."""
    fields: Json = {
        "schema_version": SCHEMA_VERSION,
        "story": spec.name,
        "chapters": tuple(chapters),
    }
    if page is not None:
        fields["page"] = str(page)
    return StoryResult.model_construct(**fields)


def check_outcomes(chapters: Sequence[FinishedChapter]) -> None:
    """Raise TrustError for a chapter that cannot be trusted, ThresholdError for an unexpected
    outcome."""
    for chapter in chapters:
        if not chapter.trustworthy:
            raise TrustError(
                f"chapter {chapter.number}, {chapter.title}: the result cannot be trusted:"
                f" {'; '.join(chapter.distrust)}",
                code="not-trustworthy",
                hint=f"pgdyno show {chapter.run_file}",
            )
    for chapter in chapters:
        if chapter.as_expected is False:
            raise ThresholdError(
                f"chapter {chapter.number}, {chapter.title}: unexpected outcome:"
                f" {by_variant(chapter.endings)}",
                code="story-otherwise",
                hint=f"pgdyno show {chapter.run_file}",
            )
