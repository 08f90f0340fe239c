"""Indexes that are written and never read.

Trigger: an index that enforces nothing has not been read since the statistics were reset, and its
table is written at least ``WRITTEN_PER_S_MIN`` times a second. Nothing is claimed of the response
time: what an update costs is in the findings on updates that are not HOT.

Threshold: pg_gather lists any index without a scan; below this rate it costs nothing that a run
could show.
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import ENTRY_CPU_S
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.tables import Index, indexes, tables
from pgdyno.numbers import counted, figure, listed
from pgdyno.record.finding import Evidence, Skip

WRITTEN_PER_S_MIN = 100.0
SHOWN = 5


def examine(s: Situation) -> Found | Cleared:
    """Compare the scans of each index with the writes of its table."""
    known = indexes(s)
    if not known:
        raise Skip("indexes were not recorded")
    entries = {table.name: table.inserted + table.updated - table.hot for table in tables(s)}
    unused = [
        index
        for index in known
        if not index.scans
        and not index.enforces
        and entries.get(index.table, 0) >= WRITTEN_PER_S_MIN
    ]
    evidence = _evidence(s, known, unused, entries)
    if not unused:
        return Cleared("no index is written and never read", evidence)
    names = listed([index.name for index in unused], SHOWN)
    written = sum(entries[index.table] for index in unused)
    number = counted(len(unused), "index gets", "indexes get")
    return Found(
        sentence=(
            f"{number} {figure(written)} entries per second and no scan has read any: {names}"
        ),
        share=0.0,
        liftable=0.0,
        confidence=0.5,
        evidence=evidence,
        advice="drop the index if no standby, no rare report and no foreign key needs it",
    )


def _evidence(
    s: Situation, known: list[Index], unused: list[Index], entries: dict[str, float]
) -> list[Evidence]:
    evidence = [s.evidence("indexes", len(known), "count")]
    for index in unused[:SHOWN]:
        cores = entries[index.table] * ENTRY_CPU_S
        evidence += [
            s.evidence(f"scans of {index.name} since the last reset", index.scans, "count", "none"),
            s.evidence("CPU time for its entries (estimate)", cores, "cores"),
        ]
    return evidence


SIGNATURE = Signature(
    id="unused-indexes",
    false_positives=(
        "statistics that were reset lately; scans on standbys, which only they count; a load that"
        " lacks the queries of the real application"
    ),
    examine=examine,
)
