"""The kernel is about to refuse memory, since it promises no more than there is.

Trigger: vm.overcommit_memory is 2, and less than ``FREE_SHARE`` of CommitLimit is not promised yet.
Threshold: ours; a tenth is gone with a few large sorts. Statements then fail with "out of memory",
and new sessions cannot be started.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import percent, size

FREE_SHARE = 0.1


def examine(sight: Sight) -> Fault | Fine:
    """Compare what is promised with the limit, where the kernel enforces it."""
    row = sight.row("kernel")
    if row.get("overcommit_memory") != 2:
        return Fine("the kernel does not limit what it promises")
    limit, promised = row["CommitLimit"], row["Committed_AS"]
    free = 1 - promised / limit
    evidence = [
        measured("CommitLimit", limit, "bytes"),
        measured("Committed_AS", promised, "bytes"),
        measured("not promised", free, "share", f"less than {percent(FREE_SHARE)}"),
    ]
    if free >= FREE_SHARE:
        return Fine(f"{percent(free)} of the memory that may be promised is left", evidence)
    return Fault(
        sentence=(
            f"the kernel has promised {size(promised)} of {size(limit)} and refuses more:"
            " statements"
            " will fail with out of memory, and new sessions cannot start"
        ),
        severity="will fail",
        confidence=0.7,
        evidence=evidence,
        advice="lower shared_buffers, work_mem or the number of sessions, or add swap",
        commands=["sysctl -w vm.overcommit_ratio=90"],
    )


RULE = Rule(
    id="commit-limit",
    looks=("kernel",),
    false_positives="memory that is promised and was never going to be used, as before",
    examine=examine,
)
