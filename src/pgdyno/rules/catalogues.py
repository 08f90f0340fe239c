"""System catalogues with dead rows that somebody keeps."""

from __future__ import annotations

from pgdyno.facts.catalogues import Catalogue, catalogue_holder, catalogues
from pgdyno.facts.holders import KEPT_S_MIN, KEPT_SHARE, XminHolder, sees_all_sessions
from pgdyno.facts.situation import Situation
from pgdyno.numbers import duration, figure, listed, percent
from pgdyno.record.finding import Evidence, Lack, Skip
from pgdyno.rules.old_transactions import holder_advice
from pgdyno.rules.rule import Cleared, Found, rule

DEAD_MIN = 1000
DEAD_RATIO_MIN = 1.0
SHOWN = 5


@rule(
    "catalogue-bloat",
    false_positives="a migration that changes many tables once, and whose transaction ends soon",
)
def catalogue_bloat(s: Situation) -> Found | Cleared:
    """Dead rows of system catalogues that an old transaction or a slot keeps.

    Temporary tables and DDL leave dead rows in pg_class, pg_attribute, pg_type and pg_depend. While
    a transaction of this database holds an old snapshot, or the consumer of a logical slot does not
    go on (catalog_xmin), autovacuum comes to them and removes nothing. Each session that connects,
    and each plan of a table that a session has not used yet, reads these catalogues.

    Trigger: a catalogue has at least ``DEAD_MIN`` dead rows and ``DEAD_RATIO_MIN`` times as many as
    live ones at the end, at least ``DEAD_MIN`` of its rows were updated or deleted in the period,
    and one holder kept its xmin, or catalog_xmin, for ``KEPT_SHARE`` of the period and
    ``KEPT_S_MIN``.

    Thresholds: a thousand rows are what other tables are judged from; as many dead rows as live
    ones are five times what makes autovacuum come by default. What that costs is not measured.

    Look-alikes: without a holder, dead rows of catalogues are autovacuum's to remove, and are none
    of this; dead rows of the load's own tables are "xmin-pinned".
    """
    known = catalogues(s)
    grown = [each for each in known if _is_bloated(each)]
    holder = catalogue_holder(s)
    shown = _evidence(s, grown or known[:1], holder)
    if not grown or holder is None:
        if grown and not sees_all_sessions(s):
            raise Skip("the snapshots of other roles' sessions are not visible", Lack.RIGHTS)
        worst = known[0]
        return Cleared(
            f"{worst.relation} has {figure(worst.dead)} dead rows"
            f"{', and nobody keeps them' if grown else ''}",
            shown,
        )
    worst = grown[0]
    return Found(
        sentence=(
            f"{holder.in_words} has kept dead rows of catalogues for {holder.held_in_words}:"
            f" {figure(worst.dead)} in {worst.relation}, {worst.dead_ratio:.1f} times its live ones"
            f"{_others(grown[1:])}"
        ),
        removable_share=0.0,
        severity="costs",
        confidence=0.85,
        evidence=shown,
        causes=("xmin-pinned", "slot-holds-wal"),
        advice=(
            f"{holder_advice(holder)}; VACUUM these catalogues afterwards; and make fewer temporary"
            " tables: one for a session, with ON COMMIT DELETE ROWS, or none (a common table"
            " expression, an array)"
        ),
    )


def _is_bloated(each: Catalogue) -> bool:
    many = each.dead >= DEAD_MIN and each.dead_ratio >= DEAD_RATIO_MIN
    return many and each.made_dead >= DEAD_MIN


def _others(grown: list[Catalogue]) -> str:
    return f"; also in {listed([each.relation for each in grown])}" if grown else ""


def _evidence(s: Situation, shown: list[Catalogue], holder: XminHolder | None) -> list[Evidence]:
    evidence = []
    for each in shown[:SHOWN]:
        evidence += [
            s.evidence(f"dead rows of {each.relation}", each.dead, "rows",
                       f"at least {DEAD_MIN:,} and as many as live ones"),
            s.evidence("its live rows", each.live, "rows"),
            s.evidence("its rows updated or deleted", each.made_dead, "rows",
                       f"at least {DEAD_MIN:,}"),
            s.evidence("vacuums of it that ended", each.vacuums, "count"),
        ]  # fmt: skip
    if holder is None:
        return [*evidence, s.evidence("holder of an old xmin", "none", "")]
    bar = f"at least {percent(KEPT_SHARE)} of the time, and {duration(KEPT_S_MIN)}"
    return [
        *evidence,
        s.evidence("holder of an old xmin", holder.in_words, ""),
        s.evidence("held without a break for", holder.seen_s, "s", bar),
    ]
