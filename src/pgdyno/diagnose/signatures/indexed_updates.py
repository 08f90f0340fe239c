"""Updates of an indexed column: none of them is HOT, whatever space the pages have.

Trigger: at most ``HOT_SHARE`` of a table's updates are HOT because of an indexed column (see
``facts.missed_hot``), and their entries into indexes are estimated to take at least ``COST_SHARE``
of the response time.

Threshold: calibrated by injection, one to four indexes on the updated column; see ``_cpu_uses``.
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.missed_hot import COST_SHARE, hot_evidence, missed_updates, missed_words
from pgdyno.numbers import percent


def examine(s: Situation) -> Found | Cleared:
    """Examine the updates of each table that set an indexed column."""
    missed = [each for each in missed_updates(s) if each.finding == "indexed-updates"]
    share = response_share(s, "indexed-updates")
    evidence = hot_evidence(s, missed, share)
    if not missed or share < COST_SHARE:
        return Cleared(f"updates of indexed columns take {percent(share)} of the time", evidence)
    worst = missed[0]
    which = f"column {worst.column} is indexed" if worst.column else "they change an indexed column"
    return Found(
        sentence=missed_words(worst, f"as {which}"),
        parts=cpu_parts(s),
        share=share,
        liftable=ratio_without(s, cpu_uses(s)["indexed-updates"]).lifted,
        confidence=0.8 if worst.column else 0.6,
        evidence=evidence,
        advice=(
            "drop the index on the updated column if queries can do without it, or move the column"
            " to a table of its own; free space in the pages (fillfactor) does not help"
        ),
    )


SIGNATURE = Signature(
    id="indexed-updates",
    false_positives=(
        "statements that set an indexed column to the value that it has, which are HOT; columns set"
        " by triggers or by functions, whose statements are not seen"
    ),
    examine=examine,
)
