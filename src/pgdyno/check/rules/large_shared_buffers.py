"""shared_buffers takes most of the memory: little is left for sessions and the file cache.

Trigger: shared_buffers is more than ``MEMORY_SHARE`` of the memory that the server may use, that of
its control group where it has a limit; from ``DANGER_SHARE`` on it costs something.

Threshold: PostgreSQL's documentation ("Resource Consumption") calls more than 40 % of the memory
unlikely to work better. At three quarters, what is left is smaller than what the sessions of a busy
server take: our reasoning.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured, proposed
from pgdyno.numbers import percent, size

MEMORY_SHARE = 0.4
DANGER_SHARE = 0.75


def examine(sight: Sight) -> Fault | Fine:
    """Compare shared_buffers with the memory."""
    memory = float(sight.host["memory_bytes"])
    buffers = sight.setting("shared_buffers").bytes
    share = buffers / memory
    evidence = [
        measured("shared_buffers", buffers, "bytes"),
        measured("memory that the server may use", memory, "bytes"),
        measured("shared_buffers / memory", share, "share", f"more than {percent(MEMORY_SHARE)}"),
    ]
    if share <= MEMORY_SHARE:
        return Fine(f"shared_buffers are {percent(share)} of the memory", evidence)
    value = f"{int(memory / 4) >> 20}MB"
    return Fault(
        sentence=(
            f"shared_buffers of {size(buffers)} are {percent(share)} of the memory that the server"
            f" may use ({size(memory)}); little is left for sessions and the file cache"
        ),
        severity="costs" if share >= DANGER_SHARE else "minor",
        confidence=0.7,
        evidence=evidence,
        commands=alter_system({"shared_buffers": f"'{value}'"}, restart=True),
        proposals=[
            proposed("shared-buffers", "memory for sessions and files", {"shared_buffers": value})
        ],
    )


RULE = Rule(
    id="large-shared-buffers",
    looks=("setting",),
    false_positives="a database that fits in shared_buffers as a whole, with few sessions",
    examine=examine,
)
