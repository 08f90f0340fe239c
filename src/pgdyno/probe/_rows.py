"""The type of a row that a sampler adds to a table of the run file."""

from __future__ import annotations

MetricRow = dict[str, str | float | None]
"""Column → value; columns are those of the table in ``record/schema.sql``."""
