"""The course of a single run's throughput in sentences, for the terminal and the page alike."""

from __future__ import annotations

from pgdyno.diagnose.course import Course, course_of
from pgdyno.record import RunFile
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import numbers

LISTED_MAX = 5


def course_in(run: RunFile, story: RunSummary) -> Course | None:
    """The course of a single run; None for other commands, and where nothing was measured."""
    ids = story.before.slice_ids if story.before else None
    return course_of(run, ids) if run.run.command == "run" and ids else None


def change_sentences(course: Course) -> list[str]:
    """Each sudden change with its time; or why there is none."""
    said = [f"at {numbers.clock(c.at_ms)} {c.sentence}" for c in course.changes]
    return _shortened(said) or [course.changes_absent]


def drop_sentences(course: Course) -> list[str]:
    """Each drop with its time; or why there is none."""
    said = [f"at {numbers.clock(d.window_ms[0])} {course.drop_sentence(d)}" for d in course.drops]
    return _shortened(said) or [course.drops_absent]


def _shortened(said: list[str]) -> list[str]:
    more = len(said) - LISTED_MAX
    return [*said[:LISTED_MAX], f"and {more} more"] if more > 0 else said
