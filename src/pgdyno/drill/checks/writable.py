"""The server goes on: it inserts, hands out numbers, changes, deletes, and makes a checkpoint."""

from __future__ import annotations

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill._queries import query, statements

_WRITTEN = (400, 400, 500, 500)
"""As ``sql/written.sql`` counts what ``sql/write_on.sql`` writes."""


def _look(scene: Scene) -> Seen:
    for statement in statements("write_on"):
        scene.conn.execute(statement)
    scene.conn.execute("checkpoint")
    found = scene.conn.execute(query("written")).fetchone()
    if found != _WRITTEN:
        return False, f"of rows written just now {found} are found, and should be {_WRITTEN}"
    return True, f"{sum(_WRITTEN[::2])} rows written and found, and a checkpoint made"


CHECK = CheckRule("writable", Stage.WRITING, _look, deep=True)
