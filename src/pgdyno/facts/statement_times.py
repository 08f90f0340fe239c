r"""Limits of what counts and times of statements say: executions that changed no row, those that
failed, and those of a pipeline.

A statement that was to change or delete rows and never found one makes the load do less than its
script says.

The load engine times a statement from its sending to its answer, if it succeeds. Those between
``\startpipeline`` and ``\endpipeline`` are sent together, so that each one's time begins with that
of the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pgdyno.json_types import Fields
from pgdyno.record import RunFile, StatementTotal

EXECUTIONS_MIN = 10
"""Fewer may have found nothing by chance."""
_PIPELINE = re.compile(r"^\s*\\startpipeline\b", re.MULTILINE | re.IGNORECASE)


def time_notes(run: RunFile, totals: Iterable[StatementTotal]) -> list[str]:
    """Return sentences, without periods, for a table of these statements; [] if all is said."""
    return list(_notes(run, totals))


def _notes(run: RunFile, totals: Iterable[StatementTotal]) -> Iterator[str]:
    if any(total.failed for total in totals):
        yield "times are those of the executions that succeeded; failed ones were not timed"
    if has_pipeline(run.run.spec):
        yield (
            "statements of a pipeline are sent together: the time of each counts from then and"
            " includes that of those before it, so their times and shares overlap"
        )


def has_pipeline(spec: Fields) -> bool:
    """True if the load sends statements of a pipeline."""
    if (spec.get("workload") or {}).get("ingest") == "pipeline":
        return True
    return any(_PIPELINE.search(text) for text in _script_texts(spec))


def _script_texts(spec: Fields) -> Iterator[str]:
    """Yield the texts of the load's scripts as far as the spec has them; built-in ones, of which
    only that of an ingest may have a pipeline, are only named."""
    for part in (spec.get("workload") or {}, *(spec.get("clients") or [])):
        scripts = part.get("script")
        if isinstance(scripts, Sequence) and not isinstance(scripts, str):
            yield from (
                str(each.get("text") or "") for each in scripts if isinstance(each, Mapping)
            )


def never_touched(totals: Iterable[StatementTotal]) -> list[StatementTotal]:
    """Return the statements of which every execution changed no row."""
    return [each for each in totals if each.done >= EXECUTIONS_MIN and each.untouched == each.done]
