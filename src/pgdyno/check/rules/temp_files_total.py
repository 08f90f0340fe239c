"""Sorts and hashes that do not fit in work_mem, over the time of the statistics.

Trigger: the database has written at least ``BYTES_S_MIN`` to temporary files on average since the
statistics began, at least ``COUNTED_S_MIN`` ago. Threshold: ours; a megabyte a second, all day, is
86 GB a day of writes and reads that memory would save.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured, proposed
from pgdyno.numbers import duration, figure, size
from pgdyno.record.finding import Skip
from pgdyno.spec.sql_text import literal

BYTES_S_MIN = 1 << 20
COUNTED_S_MIN = 3600.0
WORK_MEM_BYTES_MAX = 256 << 20


def examine(sight: Sight) -> Fault | Fine:
    """Examine the counters of this database."""
    row = next((row for row in sight.rows("database") if row["current"]), None)
    counted_s = sight.row("server")["counters_s"]
    if row is None or counted_s is None or counted_s < COUNTED_S_MIN:
        raise Skip("the statistics are too young, or their age is not known")
    per_s, files = row["temp_bytes"] / counted_s, max(row["temp_files"], 1)
    mean = row["temp_bytes"] / files
    evidence = [
        measured("temporary files", per_s, "bytes/s", f"at least {size(BYTES_S_MIN)}/s"),
        measured("mean size of a temporary file", mean, "bytes"),
        measured("work_mem", sight.setting("work_mem").bytes, "bytes"),
    ]
    if per_s < BYTES_S_MIN:
        return Fine("little is written to temporary files", evidence)
    value = f"{_work_mem(mean)}MB"
    return Fault(
        sentence=(
            f"temporary files got {size(per_s)}/s on average over {duration(counted_s)}, in"
            f" {figure(files)} files of {size(mean)}: work_mem is"
            f" {size(sight.setting('work_mem').bytes)}"
        ),
        severity="costs",
        confidence=0.5,
        evidence=evidence,
        advice="set log_temp_files to see which statements; raise work_mem for their role only",
        commands=[f"ALTER ROLE … SET work_mem = {literal(value)}"],
        proposals=[proposed("work-mem", "sorts and hashes in memory", {"work_mem": value})],
    )


def _work_mem(mean_bytes: float) -> int:
    """Return the power of two in MB that holds a mean file, within bounds."""
    wanted = min(WORK_MEM_BYTES_MAX, 2 * mean_bytes) / (1 << 20)
    return 1 << max(3, int(wanted).bit_length())


RULE = Rule(
    id="temp-files-total",
    looks=("server", "setting", "database"),
    false_positives="reports or index builds at night that nobody waits for",
    examine=examine,
    covered_by=("temp-files",),
)
