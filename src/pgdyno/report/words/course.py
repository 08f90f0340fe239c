"""Changes and drops of a single run in sentences, for the terminal and the page."""

from __future__ import annotations

from pgdyno import numbers
from pgdyno.facts.course import Course, course_of
from pgdyno.record import RunFile
from pgdyno.report.summary import RunSummary

LISTED_MAX = 5


def course_in(run: RunFile, summary: RunSummary) -> Course | None:
    """Return the course of a run or a soak; None for other commands and if nothing was measured."""
    ids = summary.before.slice_ids if summary.before else None
    return course_of(run, ids) if summary.view.is_run and ids else None


def change_sentences(course: Course) -> list[str]:
    """Return each sudden change with its time, or why there is none."""
    found = [f"at {numbers.clock(c.at_ms / 1000)} {c.sentence}" for c in course.all_changes]
    of_rate, of_latency = course.changes_absent, course.latency_changes_absent
    absent: list[str] = []
    if not found and of_rate and of_latency:
        whole = f"throughput: {of_rate.sentence}; response times: {of_latency.sentence}"
        absent = [of_rate.sentence if of_rate == of_latency else whole]
    elif of_latency and not of_latency.search.was_made:
        absent = [f"response times: {of_latency.sentence}"]
    return [*_shortened(found), *absent, *_unsearched_groups(course)]


def _unsearched_groups(course: Course) -> list[str]:
    groups = course.latency_unsearched
    if not groups or not course.latency_searched:
        return []
    named = f"group {groups[0]}" if len(groups) == 1 else f"groups {', '.join(groups)}"
    return [f"response times of {named} alone: not examined, too few transactions ended"]


def drop_sentences(course: Course) -> list[str]:
    """Return each drop with its time, or why there is none."""
    drops = [
        f"at {numbers.clock(d.window_ms[0] / 1000)} {course.drop_sentence(d)}" for d in course.drops
    ]
    absent = course.drops_absent
    return _shortened(drops) or [absent.sentence if absent else ""]


def _shortened(sentences: list[str]) -> list[str]:
    more = len(sentences) - LISTED_MAX
    return [*sentences[:LISTED_MAX], f"and {more} more"] if more > 0 else sentences
