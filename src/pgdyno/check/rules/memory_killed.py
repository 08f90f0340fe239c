"""The kernel has killed programs for want of memory.

Trigger: the machine counts at least one such kill since it was started (oom_kill in /proc/vmstat).
Threshold: none. If a process of the server is killed, all sessions end and the server recovers as
after a crash. It is minor, since the count does not say whose process it was. PostgreSQL's
documentation ("Managing Kernel Resources") advises vm.overcommit_memory = 2, so that allocations
fail instead.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import counted, duration
from pgdyno.record.finding import Skip


def examine(sight: Sight) -> Fault | Fine:
    """Examine the kernel's counter."""
    row = sight.row("kernel")
    if "oom_kill" not in row:
        raise Skip("this kernel does not count kills")
    kills = row["oom_kill"]
    evidence = [
        measured("programs killed", kills, "count", "at least 1"),
        measured("vm.overcommit_memory", row.get("overcommit_memory"), ""),
    ]
    if not kills:
        return Fine("the kernel has killed no program for want of memory", evidence)
    strict = row.get("overcommit_memory") == 2
    return Fault(
        sentence=(
            f"the kernel has killed {counted(kills, 'program', 'programs')} for want of memory in"
            f" {duration(row['uptime_s'])}; a server of which it kills a process recovers as"
            " after a"
            " crash"
        ),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        advice="the kernel's log names what was killed; lower what takes the memory",
        commands=[] if strict else ["sysctl -w vm.overcommit_memory=2 vm.overcommit_ratio=90"],
    )


RULE = Rule(
    id="memory-killed",
    looks=("kernel",),
    false_positives="programs in a container of their own, which reached the container's limit",
    examine=examine,
)
