"""The clients' acknowledged commits against the witnesses that their transactions left."""

from __future__ import annotations

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill._ledger import judge
from pgdyno.drill.model import LedgerCount
from pgdyno.drill.witnesses import read_present


def _look(scene: Scene) -> Seen:
    crashed = scene.crashed
    if any(load.label is None for load in crashed.acks.loads):
        return None, "the load left no witnesses"
    present = read_present(scene.conn, crashed.acks)
    count = judge(crashed.acks, present, crashed.cut_ns, only_before_cut=crashed.only_before_cut)
    scene.count = count
    return not count.lost and not count.inconsistent, _in_words(count)


def _in_words(count: LedgerCount) -> str:
    parts = [f"{count.acked:,} acknowledged, {count.lost:,} of them lost"]
    if count.lost:
        parts.append(f"the oldest {count.lost_ms:.1f} ms before")
    if count.unknown:
        parts.append(f"{count.unknown:,} unknown, {count.ghost:,} of them there")
    for number, what in (
        (count.holes, "lost though the same client's later ones are there"),
        (count.phantoms, "there though they cannot have been committed"),
        (count.duplicates, "there more than once"),
    ):
        if number:
            parts.append(f"{number:,} {what}")
    return ", ".join(parts)


CHECK = CheckRule("ledger", Stage.LEDGER, _look)
