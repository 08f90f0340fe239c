"""The kernel throws out cached files instead of using memory of another NUMA node.

Trigger: vm.zone_reclaim_mode is not 0. Threshold: none; the kernel's documentation (sysctl/vm) says
to leave it off where the file cache matters more than the distance of memory, as for file servers.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.record.finding import Skip


def examine(sight: Sight) -> Fault | Fine:
    """Examine the setting."""
    mode = sight.row("kernel").get("zone_reclaim_mode")
    if mode is None:
        raise Skip("this kernel does not have the setting")
    evidence = [measured("vm.zone_reclaim_mode", mode, "", "not 0")]
    if mode == 0:
        return Fine("vm.zone_reclaim_mode is off", evidence)
    return Fault(
        sentence=(
            f"vm.zone_reclaim_mode is {mode}: the kernel throws out cached files while other memory"
            " is free"
        ),
        severity="costs",
        confidence=0.7,
        evidence=evidence,
        commands=["sysctl -w vm.zone_reclaim_mode=0"],
    )


RULE = Rule(
    id="zone-reclaim",
    looks=("kernel",),
    false_positives="several servers, each bound to a node of its own",
    examine=examine,
)
