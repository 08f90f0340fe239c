"""The figures of the workload entity-resolution, from a run file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pgdyno.record import RunFile, StatementTotal
from pgdyno.results.entities import EntityResolution

_FINISHES = re.compile(r"update\s+er_observed\s+set\s+features\b", re.IGNORECASE)
"""The statement that finishes a record."""


def entities_of(run: RunFile, slice_ids: Sequence[int]) -> EntityResolution | None:
    """Return the figures over the slices; None if the tables were not checked."""
    found = next(iter(run.events("consistency")), None)
    if found is None:
        return None
    totals = run.statements(slice_ids)
    records = sum(total.done for total in totals if _FINISHES.match(total.statement))
    seconds = run.seconds(slice_ids)
    broken = {rule: count for rule, count in found.detail["broken"].items() if count}
    return EntityResolution(
        records=records,
        records_per_s=round(records / seconds, 2) if seconds else 0.0,
        statements_per_record=round(_executed(totals) / records, 2) if records else None,
        records_in_tables=found.detail["records"],
        unfinished=found.detail["unfinished"],
        entities=found.detail["entities"],
        consistent=not broken,
        broken=broken,
    )


def _executed(totals: Iterable[StatementTotal]) -> int:
    return sum(total.done + total.failed for total in totals)
