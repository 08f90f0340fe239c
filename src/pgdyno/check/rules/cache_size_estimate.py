"""effective_cache_size, the planner's idea of the cache, cannot be right.

Trigger: it is smaller than shared_buffers, which is a part of it; or larger than the memory that
the server may use. Threshold: none; both contradict what the setting means. It only moves plans, so
it is minor.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, Unseen, alter_system, measured
from pgdyno.numbers import size

SHARE = 0.75


def examine(sight: Sight) -> Fault | Fine:
    """Compare the setting with shared_buffers and, where it is known, the memory."""
    cache = sight.setting("effective_cache_size")
    buffers = sight.setting("shared_buffers").bytes
    memory = _memory(sight)
    evidence = [
        measured("effective_cache_size", cache.bytes, "bytes", "at least shared_buffers"),
        measured("shared_buffers", buffers, "bytes"),
        *([] if memory is None else [measured("memory of the server", memory, "bytes")]),
    ]
    too_large = memory is not None and cache.bytes > memory and not cache.is_default
    if cache.bytes >= buffers and not too_large:
        return Fine("effective_cache_size is possible", evidence)
    than = (
        f"the memory of {size(memory)}"
        if memory and too_large
        else f"shared_buffers ({size(buffers)})"
    )
    value = f"{int(SHARE * memory if memory else 2 * buffers) >> 20}MB"
    return Fault(
        sentence=(
            f"effective_cache_size of {size(cache.bytes)} is {'larger' if too_large else 'smaller'}"
            f" than {than}: plans assume a cache of the wrong size"
        ),
        severity="minor",
        confidence=0.8,
        evidence=evidence,
        commands=alter_system({"effective_cache_size": f"'{value}'"}),
    )


def _memory(sight: Sight) -> float | None:
    try:
        return float(sight.host["memory_bytes"])
    except Unseen:
        return None


RULE = Rule(
    id="cache-size-estimate",
    looks=("setting",),
    false_positives="a file cache outside the server's control group",
    examine=examine,
)
