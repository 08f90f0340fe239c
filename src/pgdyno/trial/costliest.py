"""The costliest statement of a run or of a check, as their results have it."""

from __future__ import annotations

from collections.abc import Collection

from pgdyno import numbers
from pgdyno.diagnose import costliest
from pgdyno.record import RunFile
from pgdyno.results.run_parts import CostliestStatement

_UNKNOWN = (
    "not known: no statement was timed, counted or seen; pg_stat_statements and the rights of"
    " pg_monitor would show them"
)


def costliest_of(run: RunFile, slice_ids: Collection[int]) -> CostliestStatement:
    """Return the statement that takes the most time, or what would tell."""
    found = costliest(run, slice_ids)
    if found is None:
        unknown = dict.fromkeys(("statement", "share", "measure", "rows_read", "rows_returned"))
        return CostliestStatement.model_validate({**unknown, "sentence": _UNKNOWN})
    rows = (found.rows_read, found.rows_returned)
    read, returned = (None if each is None else numbers.rounded(each) for each in rows)
    return CostliestStatement(
        statement=found.statement,
        share=numbers.rounded(found.share),
        measure=found.measure,
        rows_read=read,
        rows_returned=returned,
        sentence=found.sentence,
    )
