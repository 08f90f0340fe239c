"""A sequence is not behind the numbers that it gave to transactions which are there."""

from __future__ import annotations

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill.witnesses import WITNESS_TABLE, last_number


def _look(scene: Scene) -> Seen:
    row = scene.conn.execute(f"select max(number) from {WITNESS_TABLE}".encode()).fetchone()
    used = max((row[0] if row else None) or 0, scene.crashed.witnesses.number)
    stands_at = last_number(scene.conn)
    detail = f"stands at {stands_at:,}, and {used:,} was the highest number in use"
    return stands_at >= used, detail


CHECK = CheckRule("sequence", Stage.READING, _look)
