"""Full pages: updates find no space on the row's page, so that they are not HOT.

Trigger: at most ``HOT_SHARE`` of a table's updates are HOT, not because of an indexed column (see
``facts.missed_hot``), and their entries into indexes are estimated to take at least ``COST_SHARE``
of the response time.

Threshold: pg_gather proposes a fillfactor for any table with updates that are not HOT; the cost is
calibrated by injection, see ``_cpu_uses``. The value proposed is pg_gather's: 100 - 20 U / (U + I)
+ 20 H / (U + I), with U updates, I inserts and H HOT updates.
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.missed_hot import (
    COST_SHARE,
    MOST,
    Missed,
    hot_evidence,
    missed_updates,
    missed_words,
)
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Proposal
from pgdyno.spec.change import Change


def examine(s: Situation) -> Found | Cleared:
    """Examine the updates of each table that are not HOT for want of space."""
    missed = [each for each in missed_updates(s) if each.finding == "full-pages"]
    share = response_share(s, "full-pages")
    evidence = hot_evidence(s, missed, share)
    if not missed or share < COST_SHARE:
        return Cleared(f"updates for want of space take {percent(share)} of the time", evidence)
    worst = missed[0]
    unknown = worst.reason == "unknown"
    why = (
        "whether for want of space on their page or for an indexed column is not known"
        if unknown
        else "as their page is full"
    )
    return Found(
        sentence=missed_words(worst, why),
        parts=cpu_parts(s),
        share=share,
        liftable=ratio_without(s, cpu_uses(s)["full-pages"]).lifted,
        confidence=0.5 if unknown else 0.8,
        evidence=evidence,
        proposals=[] if unknown else _fillfactor(s, missed),
        advice=_ADVICE if unknown else "",
    )


_ADVICE = (
    "compare the columns that the updates set with those of the table's indexes; if none of them is"
    " indexed, lower the table's fillfactor"
)


def _fillfactor(s: Situation, missed: list[Missed]) -> list[Proposal]:
    proposals = []
    entries = sum(each.entries_per_s for each in missed)
    for each in missed:
        table = each.table
        rows = table.updated + table.inserted
        value = round(100 - 20 * table.updated / rows + 20 * table.hot / rows)
        part = cpu_uses(s)["full-pages"] * each.entries_per_s / entries
        change = Change(table_options={table.name: {"fillfactor": str(value)}})
        why = f"{figure(each.missed)} updates per second would stay on their page"
        # Only pages that are rewritten get space.
        ratio = ratio_without(s, MOST * part)
        proposals.append(
            Proposal(
                remedy_id="fillfactor", change=change, predicted_ratio=ratio, why=why, specific=True
            )
        )
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]


SIGNATURE = Signature(
    id="full-pages",
    false_positives=(
        "a table that was just loaded, whose pages get free space by their first updates; columns"
        " set by triggers or by functions, whose statements are not seen"
    ),
    examine=examine,
)
