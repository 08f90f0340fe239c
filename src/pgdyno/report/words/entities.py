"""The workload entity-resolution in words: its records, and whether its tables are consistent."""

from __future__ import annotations

from pgdyno import numbers
from pgdyno.results.run_parts import EntityResolution


def sentences(found: EntityResolution) -> dict[str, str]:
    """Return label and sentence for a short summary."""
    return {"records": _records(found), "consistency": consistency_words(found)}


def _records(found: EntityResolution) -> str:
    each = found.statements_per_record
    per_record = "" if each is None else f", {each:.1f} statements per record"
    return (
        f"{numbers.tps(found.records_per_s)} per second{per_record};"
        f" {found.records_in_tables:,} in {found.entities:,} entities"
    )


def consistency_words(found: EntityResolution) -> str:
    """Return whether the tables agree with each other."""
    if not found.consistent:
        broken = "; ".join(f"{count:,} {rule}" for rule, count in found.broken.items())
        return f"broken: {broken}"
    cut_off = f"; {found.unfinished:,} were cut off on the way" if found.unfinished else ""
    return f"every finished record is in exactly one entity, and the counts agree{cut_off}"
