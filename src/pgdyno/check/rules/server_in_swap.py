"""Memory of the server's processes is in swap.

Trigger: at least ``SWAPPED_BYTES_MIN`` of its processes. Threshold: ours; less than that is pages
that were used at the start alone. A page that a statement needs again takes a read from the disk.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import size

SWAPPED_BYTES_MIN = 64 << 20


def examine(sight: Sight) -> Fault | Fine:
    """Examine how much of the server's memory is in swap."""
    swapped = sight.row("process_memory")["swap_bytes"]
    kernel = sight.row("kernel")
    evidence = [
        measured("memory of the server in swap", swapped, "bytes",
                 f"at least {size(SWAPPED_BYTES_MIN)}"),
        measured("vm.swappiness", kernel.get("swappiness"), ""),
        measured("memory available on the machine", kernel.get("MemAvailable"), "bytes"),
    ]  # fmt: skip
    if swapped < SWAPPED_BYTES_MIN:
        return Fine("the server's memory is not in swap", evidence)
    return Fault(
        sentence=f"{size(swapped)} of the server's memory are in swap",
        severity="costs",
        confidence=0.7,
        evidence=evidence,
        advice=(
            "find what takes the memory; huge pages for shared_buffers cannot be swapped, and a low"
            " vm.swappiness keeps sessions in memory rather than the file cache"
        ),
        commands=["sysctl -w vm.swappiness=1"],
    )


RULE = Rule(
    id="server-in-swap",
    looks=("kernel", "process_memory"),
    false_positives="sessions that have been idle for days",
    examine=examine,
)
