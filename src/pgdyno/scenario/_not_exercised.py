"""Risks that a drill which went well happened not to exercise, and which the next crash may.

Each sentence is derived from the drill's own cuts: a rescue without the standby that succeeded as
well, the amount of WAL that could be lost, the delay of the standby.
"""

from __future__ import annotations

from pgdyno.record.cut import Cut
from pgdyno.results.drill import Drill

SMALL_WAL_BYTES = 64 << 10
"""WAL of a checkpoint and a snapshot, without any write of a client."""
NO_RESCUE = "resetwal"
"""The variant that starts the server without the standby."""


def luck(result: Drill) -> list[str]:
    """Return sentences about cuts that ended well, or better than could be relied on."""
    found: dict[str, list[str]] = {}
    by_name = {cut.variant: cut for cut in result.cuts}
    for cut in result.cuts:
        if cut.outcome in ("clean", "lost") and cut.facts.get("promised"):
            for sentence in (*_no_wal(cut), *_no_standby(cut, by_name), *_no_new_page(cut)):
                variants = found.setdefault(sentence, [])
                if cut.variant not in variants:
                    variants.append(cut.variant)
    return [f"{', '.join(variants)}: {sentence}" for sentence, variants in found.items()]


def _no_wal(cut: Cut) -> list[str]:
    """Return a sentence if the last checkpoint covered everything."""
    wal = cut.facts.get("wal_since_checkpoint_bytes")
    if wal is None or wal > SMALL_WAL_BYTES:
        return []
    return ["the last checkpoint covered everything, so no WAL was needed"]


def _no_standby(cut: Cut, by_name: dict[str, Cut]) -> list[str]:
    """Return a sentence if the rescue without the standby succeeded as well."""
    way = cut.variant.rpartition("/")[0]
    other = by_name.get(f"{way}/{NO_RESCUE}".removeprefix("/"))
    if other is None or other.outcome != "clean" or cut.outcome != "clean":
        return []
    return [
        "pg_resetwal alone, without the standby, succeeded as well, so this does not show that the"
        " standby helped"
    ]


def _no_new_page(cut: Cut) -> list[str]:
    """Return a sentence if the standby was behind and no page of the primary was newer than its
    WAL."""
    behind = max(cut.facts.get("behind_bytes", {}).values(), default=0) or 0
    copied = cut.variant.endswith("copy-back")
    if not copied or cut.outcome != "lost" or behind <= SMALL_WAL_BYTES:
        return []
    return [
        "the standby was behind, and the primary had not yet written a page newer than the"
        " standby's WAL; a moment later the copy would have been corrupt, and the server would have"
        " started without an error"
    ]
