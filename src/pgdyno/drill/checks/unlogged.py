"""An unlogged table is empty after a crash, as documented, and whole after a clean shutdown."""

from __future__ import annotations

from pgdyno.drill.checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill.witnesses import UNLOGGED_TABLE, count_rows


def _look(scene: Scene) -> Seen:
    before = scene.crashed.witnesses.unlogged_rows
    rows = count_rows(scene.conn, UNLOGGED_TABLE)
    after = "a crash" if scene.recovery.crashed else "a clean shutdown"
    expected = 0 if scene.recovery.crashed else before
    if rows != expected:
        return False, f"{rows} rows after {after}, and {expected} were to be expected"
    return True, f"{rows} rows after {after}, as documented"


CHECK = CheckRule("unlogged", Stage.READING, _look)
