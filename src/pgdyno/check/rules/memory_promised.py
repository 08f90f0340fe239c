"""More memory promised than there is: shared_buffers, and work_mem of all connections.

Trigger: shared_buffers, one work_mem for each connection, and the memory of all autovacuum workers
come to more than the memory that the server may use, of its control group where that has a limit.
It costs something with the connections that are open now; with all of max_connections it is minor.

Threshold: db-triage alarms where the worst case exceeds the memory. A statement may take work_mem
several times (hash_mem_multiplier, each sort), so this is no upper bound.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import figure, size

_WORKERS = "autovacuum_max_workers"


def examine(sight: Sight) -> Fault | Fine:
    """Compare what may be taken with what there is."""
    memory = float(sight.host["memory_bytes"])
    buffers, work = sight.setting("shared_buffers").bytes, sight.setting("work_mem").bytes
    fixed = buffers + _of_workers(sight)
    open_now = sum(row["sessions"] for row in sight.rows("connection_state"))
    most = sight.setting("max_connections").number
    evidence = [
        measured("memory that the server may use", memory, "bytes"),
        measured("shared_buffers", buffers, "bytes"),
        measured("memory of autovacuum workers", fixed - buffers, "bytes"),
        measured("work_mem", work, "bytes"),
        measured("connections open", open_now, "count"),
        measured("max_connections", most, "count"),
        measured("all of it with max_connections", fixed + most * work, "bytes",
                 "more than the memory"),
    ]  # fmt: skip
    if fixed + most * work <= memory:
        return Fine("buffers and work_mem of all connections fit in memory", evidence)
    now = fixed + open_now * work > memory
    sessions = open_now if now else most
    return Fault(
        sentence=(
            f"shared_buffers, autovacuum and one work_mem of {size(work)} for each of"
            f" {figure(sessions)} connections {'that are open ' if now else ''}come to"
            f" {size(fixed + sessions * work)}; the server may use {size(memory)}"
        ),
        severity="costs" if now else "minor",
        confidence=0.6,
        evidence=evidence,
        advice=(
            "lower work_mem for all and raise it for the role or the statement that needs it; lower"
            " max_connections, with a pooler in front"
        ),
    )


def _of_workers(sight: Sight) -> float:
    own = sight.setting("autovacuum_work_mem")
    each = own if own.number > 0 else sight.setting("maintenance_work_mem")
    return each.bytes * sight.setting(_WORKERS).number


RULE = Rule(
    id="memory-promised",
    looks=("setting", "connection_state"),
    false_positives="connections that are never at work at the same time",
    examine=examine,
)
