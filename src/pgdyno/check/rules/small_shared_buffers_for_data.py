"""shared_buffers is a small part of the memory, and data is read over and over.

Trigger: shared_buffers is less than ``MEMORY_SHARE`` of the memory that the server may use; the
database is at least ``DATA_TIMES`` as large as they are; and since the statistics began,
``COUNTED_S_MIN`` or more ago, at least ``READ_PER_S_MIN`` pages a second were read from outside,
and in all at least ``READ_TIMES`` as many as shared_buffers have.

Thresholds: PostgreSQL's documentation recommends a quarter of the memory for a start; less than a
tenth is far from it. A hundred pages a second cost about a thousandth of a core from the file
cache: below that it is nothing. A small database needs no more, whatever the memory.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured, proposed
from pgdyno.numbers import figure, size
from pgdyno.record.finding import Skip

MEMORY_SHARE = 0.1
DATA_TIMES = 4
READ_PER_S_MIN = 100.0
READ_TIMES = 10
COUNTED_S_MIN = 3600.0


def examine(sight: Sight) -> Fault | Fine:
    """Compare shared_buffers with memory, data and reads."""
    memory = float(sight.host["memory_bytes"])
    buffers = sight.setting("shared_buffers").bytes
    data = float(sight.row("relation_total")["bytes"])
    server = sight.row("server")
    counted_s = server["counters_s"] or server["uptime_s"]
    if counted_s < COUNTED_S_MIN:
        raise Skip("the statistics are too young")
    reads = sum(row["blks_read"] or 0 for row in sight.rows("database") if row["current"])
    per_s = reads / counted_s
    evidence = [
        measured("shared_buffers", buffers, "bytes", "less than a tenth of the memory"),
        measured("memory that the server may use", memory, "bytes"),
        measured("size of the database", data, "bytes", f"at least {DATA_TIMES} times as large"),
        measured("pages read from outside", per_s, "count/s", f"at least {READ_PER_S_MIN:g}/s"),
    ]
    enough = buffers >= MEMORY_SHARE * memory or data < DATA_TIMES * buffers
    read_again = reads * server["block_bytes"] >= READ_TIMES * buffers and per_s >= READ_PER_S_MIN
    if enough or not read_again:
        return Fine("shared_buffers are large enough for what is read", evidence)
    value = f"{int(memory / 4) >> 20}MB"
    return Fault(
        sentence=(
            f"shared_buffers are {size(buffers)}, the memory is {size(memory)} and the database"
            f" {size(data)}: {figure(per_s)} pages per second are read from outside"
        ),
        severity="costs",
        confidence=0.5,
        evidence=evidence,
        commands=alter_system({"shared_buffers": f"'{value}'"}, restart=True),
        proposals=[
            proposed("shared-buffers", "fewer pages read from outside", {"shared_buffers": value})
        ],
    )


RULE = Rule(
    id="small-shared-buffers-for-data",
    looks=("server", "setting", "relation_total", "database"),
    false_positives="a machine that other programs share; large scans, which pass by the buffers",
    examine=examine,
    covered_by=("small-shared-buffers", "data-reads"),
)
