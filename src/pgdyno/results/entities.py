"""The part of a result for the workload entity-resolution."""

from __future__ import annotations

from pgdyno.results.common import Part


class EntityResolution(Part):
    """Records that went through entity resolution, and what its tables were like afterwards"""

    records: int
    """Records finished in the measured slices"""
    records_per_s: float
    statements_per_record: float | None
    """Statements executed in the measured slices, for each record; null: no record was finished"""
    records_in_tables: int
    """Also those of earlier runs"""
    unfinished: int
    """Of these, records whose load was cut off between two statements"""
    entities: int
    consistent: bool
    """true: every finished record is in exactly one entity, and all counts agree"""
    broken: dict[str, int]
    """By rule: rows for which it does not hold"""
