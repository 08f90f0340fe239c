"""Throughput of a single run over time in sentences, for the terminal and the page."""

from __future__ import annotations

from pgdyno.diagnose.course import Course, course_of
from pgdyno.record import RunFile
from pgdyno.report.summary import RunSummary
from pgdyno.report.words import numbers

LISTED_MAX = 5


def course_in(run: RunFile, summary: RunSummary) -> Course | None:
    """Return the course of a single run; None for other commands and if nothing was measured."""
    ids = summary.before.slice_ids if summary.before else None
    return course_of(run, ids) if run.run.command == "run" and ids else None


def change_sentences(course: Course) -> list[str]:
    """Return each sudden change with its time, or why there is none."""
    changes = [f"at {numbers.clock(c.at_ms)} {c.sentence}" for c in course.changes]
    return _shortened(changes) or [course.changes_absent]


def drop_sentences(course: Course) -> list[str]:
    """Return each drop with its time, or why there is none."""
    drops = [f"at {numbers.clock(d.window_ms[0])} {course.drop_sentence(d)}" for d in course.drops]
    return _shortened(drops) or [course.drops_absent]


def _shortened(sentences: list[str]) -> list[str]:
    more = len(sentences) - LISTED_MAX
    return [*sentences[:LISTED_MAX], f"and {more} more"] if more > 0 else sentences
