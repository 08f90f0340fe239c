"""The clients' acknowledged commits, compared with the witnesses of their transactions."""

from __future__ import annotations

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill._ledger import compare, compare_moved
from pgdyno.drill.model import NOTHING_ACKED, acknowledged_words
from pgdyno.drill.witnesses import read_witnesses
from pgdyno.record.cut import OLD_PRIMARYS_END, THE_FAULT, LedgerCount


def _run(context: CheckContext) -> CheckResult:
    crashed = context.crashed
    if any(load.label is None for load in crashed.acks.loads):
        return None, "the load left no witnesses"
    present = read_witnesses(context.conn, crashed.acks)
    if crashed.moved_ns is not None:
        count = compare_moved(
            crashed.acks,
            present,
            crashed.cut_ns,
            moved_ns=crashed.moved_ns,
            port=crashed.conninfo.port,
        )
    else:
        count = compare(
            crashed.acks, present, crashed.cut_ns, only_before_cut=crashed.only_before_cut
        )
    context.count = count
    return not count.lost and not count.inconsistent, _in_words(
        count, THE_FAULT if crashed.moved_ns is None else OLD_PRIMARYS_END
    )


def _in_words(count: LedgerCount, until: str) -> str:
    parts = [f"{count.acked:,} acknowledged, {count.lost:,} of them lost"]
    if not count.acked:
        parts = [NOTHING_ACKED]
    if count.lost:
        parts.append(acknowledged_words(count.lost_ms, until))
    if count.unknown:
        parts.append(f"{count.unknown:,} unknown, {count.ghost:,} of them present")
    for number, what in (
        (count.holes, "lost although later ones of the same client are present"),
        (count.phantoms, "present although they cannot have been committed"),
        (count.duplicates, "present more than once"),
    ):
        if number:
            parts.append(f"{number:,} {what}")
    return ", ".join(parts)


CHECK = CheckRule("ledger", Stage.LEDGER, _run)
