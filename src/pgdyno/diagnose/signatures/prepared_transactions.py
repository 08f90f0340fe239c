"""Prepared transactions that nobody ends: they keep their locks and hold back vacuum for ever.

Trigger: a prepared transaction is older than ``HELD_S_MAX``, or the same one was the oldest at each
look over a period of at least ``PERIOD_S_MIN``.

Thresholds: five minutes is what the author of check_postgres suggests for servers that use prepared
transactions (its own default of a second finds every one); a two-phase commit ends in milliseconds,
so one that is there for a whole run was forgotten or its coordinator has failed. What it costs by
holding back vacuum is the finding "xmin-pinned".
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import duration, figure
from pgdyno.record.finding import Skip
from pgdyno.spec.sql_text import literal

HELD_S_MAX = 300.0
PERIOD_S_MIN = 5.0


def examine(s: Situation) -> Found | Cleared:
    """Examine the oldest prepared transaction."""
    rows = s.run.series("metric_prepared", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("prepared transactions were not recorded")
    gids = [str(gid) if gid is not None else None for gid in rows["gid"]]
    gid, number = gids[-1], float(rows["count"][-1])
    if gid is None:
        none = s.evidence("prepared transactions", number, "count")
        return Cleared("there are no prepared transactions", [none])
    held_s = float(rows["held_ms"][-1]) / 1000
    evidence = [
        s.evidence("prepared transactions", number, "count"),
        s.evidence("age of the oldest", held_s, "s", f"at least {duration(HELD_S_MAX)}, or always"),
        s.evidence("age of its transaction ID", float(rows["xid_age"][-1]), "transactions"),
    ]
    always = len(gids) > 1 and set(gids) == {gid} and s.seconds >= PERIOD_S_MIN
    if held_s < HELD_S_MAX and not always:
        return Cleared(f"the oldest prepared transaction is {duration(held_s)} old", evidence)
    others = f", the oldest of {figure(number)}" if number > 1 else ""
    return Found(
        sentence=(
            f'the prepared transaction "{gid}" has been open for {duration(held_s)}{others}; it'
            " keeps its locks and holds back vacuum until it is ended, also over a restart"
        ),
        liftable=0.0,
        confidence=0.9 if held_s >= HELD_S_MAX else 0.7,
        evidence=evidence,
        advice=(
            "in its database, ask the transaction's coordinator, and then COMMIT PREPARED"
            f" {literal(gid)} or ROLLBACK PREPARED {literal(gid)}; max_prepared_transactions = 0"
            " where none are wanted"
        ),
    )


SIGNATURE = Signature(
    id="prepared-transactions",
    false_positives="a coordinator that is being restored and will end it",
    examine=examine,
)
