"""An unlogged table is empty after a crash, as documented, and whole after a clean shutdown."""

from __future__ import annotations

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill._recovery import log_since
from pgdyno.drill.witnesses import READY, UNLOGGED_TABLE, count_rows

_EMPTYING = ("was interrupted", "was not properly shut down", "entering standby mode")
"""What a server logs that empties unlogged tables as it starts. Several may have started since, and
the last one may have been shut down cleanly."""


def _look(scene: Scene) -> Seen:
    before = scene.crashed.witnesses.unlogged_rows
    rows = count_rows(scene.conn, UNLOGGED_TABLE)
    said = log_since(scene.cluster, 0).rpartition(READY)[2]
    emptied = scene.recovery.crashed or any(words in said for words in _EMPTYING)
    after = "a crash" if emptied else "a clean shutdown"
    expected = 0 if emptied else before
    if rows != expected:
        return False, f"{rows} rows after {after}, and {expected} were to be expected"
    return True, f"{rows} rows after {after}, as documented"


CHECK = CheckRule("unlogged", Stage.READING, _look)
