"""The kernel may collect gigabytes of written pages before it writes them; fsync waits for all.

Trigger: the kernel begins to write on its own only at ``BACKGROUND_BYTES_MIN`` of dirty pages or
more (dirty_background_ratio of the available memory, or dirty_background_bytes), and at least
``DIRTY_BYTES_MIN`` are dirty at this moment. Threshold: ours; a gigabyte takes seconds on most
devices, for which a checkpoint's fsync and the commits behind it wait. It is minor; the sizes are
the machine's, whoever wrote the pages.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import size
from pgdyno.record.finding import Skip

BACKGROUND_BYTES_MIN = 1 << 30
DIRTY_BYTES_MIN = 1 << 30


def examine(sight: Sight) -> Fault | Fine:
    """Compare the kernel's limit with what is dirty."""
    row = sight.row("kernel")
    if "dirty_background_ratio" not in row or "Dirty" not in row:
        raise Skip("the kernel's limits are not readable")
    share = row["dirty_background_ratio"] / 100
    background = row.get("dirty_background_bytes") or share * row["MemAvailable"]
    dirty = row["Dirty"] + row["Writeback"]
    evidence = [
        measured("dirty pages at which the kernel begins to write", background, "bytes",
                 f"at least {size(BACKGROUND_BYTES_MIN)}"),
        measured("dirty pages now", dirty, "bytes", f"at least {size(DIRTY_BYTES_MIN)}"),
    ]  # fmt: skip
    if background < BACKGROUND_BYTES_MIN or dirty < DIRTY_BYTES_MIN:
        return Fine("few written pages wait in the file cache", evidence)
    return Fault(
        sentence=(
            f"{size(dirty)} of written pages wait in the file cache, and the kernel begins to write"
            f" at {size(background)}: an fsync waits for much at once"
        ),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        commands=["sysctl -w vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824"],
    )


RULE = Rule(
    id="late-writeback",
    looks=("kernel",),
    false_positives="files of other programs on the machine, such as a backup or a copy",
    examine=examine,
)
