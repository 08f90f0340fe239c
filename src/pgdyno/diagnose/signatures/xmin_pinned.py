"""Old xmin: one transaction, slot or standby keeps dead rows from being removed.

Trigger: the same holder kept one xmin (for ``KEPT_SHARE`` of the period, and ``KEPT_S_MIN``) while
at least ``DEAD_ROWS_MIN`` rows were updated or deleted; or its xmin is ``AGE_MAX`` old.

Thresholds: 50 million transactions are db-triage's alarm; the times are calibrated by injection
(see ``facts.holders``). What it costs now is measured, not assumed: its share is what the growth of
page accesses explains (see ``_bloat``).

Look-alikes: where autovacuum is too slow, nobody but its own ANALYZE keeps an xmin; a logical
slot's catalog_xmin keeps rows of system catalogs only, and is no holder here. Versions: all;
PostgreSQL has no counter of rows that vacuum could not remove.
"""

from __future__ import annotations

from pgdyno.diagnose._bloat import DEAD_ROWS_MIN, Bloat, bloat, bloat_evidence, cost_in_words
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.holders import KEPT_S_MIN, KEPT_SHARE, Holder, last_holder
from pgdyno.numbers import duration, figure, percent
from pgdyno.record.finding import Evidence
from pgdyno.spec.sql_text import literal

AGE_MAX = 50_000_000
LIFTABLE = 0.9
"""Versions that are there already go only bit by bit."""

_ADVICE = {
    "backend": (
        "end the transaction, or its session with pg_terminate_backend({name}); limit such with"
        " idle_in_transaction_session_timeout, from version 17 with transaction_timeout"
    ),
    "prepared": "COMMIT PREPARED or ROLLBACK PREPARED {literal}",
    "slot": (
        "let its consumer go on, or, if there is none any more, drop it:"
        " SELECT pg_drop_replication_slot({literal})"
    ),
    "standby": (
        "end long queries on the standby, or set hot_standby_feedback = off there and"
        " max_standby_streaming_delay to what queries may delay replay"
    ),
}


def examine(s: Situation) -> Found | Cleared:
    """Examine the holder of the oldest xmin."""
    holder = last_holder(s)
    if holder is None:
        nobody = s.evidence("holder of the oldest xmin", "none", "")
        return Cleared("nothing held back vacuum at the end", [nobody])
    seen = bloat(s)
    evidence = [*_evidence(s, holder), *bloat_evidence(s, seen)]
    if not _holds_back(s, holder, seen):
        return Cleared(
            f"the oldest xmin is {figure(holder.age)} transactions old, held by {holder.in_words}"
            f" for {duration(holder.seen_s)}",
            evidence,
        )
    return Found(
        sentence=(
            f"{holder.in_words} has held back vacuum for {holder.held_in_words}: none of the rows"
            f" made dead since, {figure(seen.rows_dead_s)}/s, can be removed{cost_in_words(seen)}"
        ),
        parts=seen.parts,
        share=seen.share,
        liftable=LIFTABLE,
        confidence=0.9 if seen.share else 0.7,
        evidence=evidence,
        causes=("prepared-transactions",) if holder.kind == "prepared" else (),
        advice=_ADVICE.get(holder.kind, "").format(name=holder.name, literal=literal(holder.name)),
    )


def _holds_back(s: Situation, holder: Holder, seen: Bloat) -> bool:
    if holder.age >= AGE_MAX:
        return True
    return holder.holds_back(s) and seen.rows_dead >= DEAD_ROWS_MIN


def _evidence(s: Situation, holder: Holder) -> list[Evidence]:
    bar = f"at least {percent(KEPT_SHARE)} of the time, and {duration(KEPT_S_MIN)}"
    return [
        s.evidence("holder of the oldest xmin", holder.in_words, ""),
        s.evidence("age of that xmin", holder.age, "transactions", f"at least {AGE_MAX:,}, or"),
        s.evidence("held without a break for", holder.seen_s, "s", bar),
        *(
            s.evidence("age of its transaction", seconds, "s")
            for seconds in [holder.transaction_s]
            if seconds is not None
        ),
    ]


SIGNATURE = Signature(
    id="xmin-pinned",
    false_positives=(
        "a backup or a report that is to last this long and ends soon; tables without updates and"
        " deletes, to which it does nothing; a throughput that falls for another reason meanwhile"
    ),
    examine=examine,
)
