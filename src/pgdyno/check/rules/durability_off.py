"""Durability given up by a setting: a crash of the machine may damage or lose data.

Trigger: fsync or full_page_writes is off. Threshold: none; what they may lose is in PostgreSQL's
documentation ("Reliability and the Write-Ahead Log"): without fsync all data, without
full_page_writes pages that the machine had written in part.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured

_CLASSES = {
    "fsync": "a crash of the machine may make the whole cluster unusable (class D3)",
    "full_page_writes": "a crash of the machine may damage pages written in part (class D2)",
}


def examine(sight: Sight) -> Fault | Fine:
    """Examine the two settings on which recovery after a crash rests."""
    values = {name: sight.setting(name) for name in _CLASSES}
    evidence = [measured(name, each.value, "", "off") for name, each in values.items()]
    off = [name for name, each in values.items() if not each.is_on]
    if not off:
        return Fine("fsync and full_page_writes are on", evidence)
    return Fault(
        sentence=f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: {_CLASSES[off[0]]}",
        severity="costs",
        confidence=0.95,
        evidence=evidence,
        commands=alter_system(dict.fromkeys(off, "on")),
    )


RULE = Rule(
    id="durability-off",
    looks=("setting",),
    false_positives=(
        "a server whose data can be thrown away; for full_page_writes, storage that writes whole"
        " pages of 8 kB atomically"
    ),
    examine=examine,
)
