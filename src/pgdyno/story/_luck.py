"""Where a drill that went well proves less than it seems to: what had no part in its good end.

Every sentence rests on the drill's own cuts: on a rescue that did nothing and did as well, on how
much WAL there was to lose, on how far behind the standby was.
"""

from __future__ import annotations

from pgdyno.drill.model import Cut, DrillResult

SMALL_WAL_BYTES = 64 << 10
"""A checkpoint's own records and a snapshot: nothing that a client did."""
NOT_A_RESCUE = "resetwal"


def luck(result: DrillResult) -> list[str]:
    """Sentences about the cuts that ended well, or better than they had to; none: no luck seen."""
    found: dict[str, list[str]] = {}
    by_name = {cut.variant: cut for cut in result.cuts}
    for cut in result.cuts:
        if cut.outcome in ("clean", "lost") and cut.facts.get("promised"):
            for sentence in (*_covered(cut), *_needless(cut, by_name), *_untouched(cut)):
                variants = found.setdefault(sentence, [])
                if cut.variant not in variants:
                    variants.append(cut.variant)
    return [f"{', '.join(variants)}: {sentence}" for sentence, variants in found.items()]


def _covered(cut: Cut) -> list[str]:
    """The last checkpoint had everything."""
    wal = cut.facts.get("wal_since_checkpoint_bytes")
    if wal is None or wal > SMALL_WAL_BYTES:
        return []
    return ["the last checkpoint covered everything, so that there was no WAL to bring back"]


def _needless(cut: Cut, by_name: dict[str, Cut]) -> list[str]:
    """Doing without the standby did as well."""
    way = cut.variant.rpartition("/")[0]
    other = by_name.get(f"{way}/{NOT_A_RESCUE}".removeprefix("/"))
    if other is None or other.outcome != "clean" or cut.outcome != "clean":
        return []
    return ["pg_resetwal alone, without the standby, did as well: this cannot tell them apart"]


def _untouched(cut: Cut) -> list[str]:
    """WAL of a standby that was behind, and no page of the primary from beyond it yet."""
    behind = max(cut.facts.get("behind_bytes", {}).values(), default=0) or 0
    copied = cut.variant.endswith("copy-back")
    if not copied or cut.outcome != "lost" or behind <= SMALL_WAL_BYTES:
        return []
    return [
        "the standby was behind, and no page from beyond its WAL had been written yet: a moment"
        " later the copy would have been corrupt, and would have started all the same"
    ]
