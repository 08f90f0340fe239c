"""Tables that the load left alone hold what they held: rows, and a hash over them."""

from __future__ import annotations

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill.witnesses import TableState, count_rows, table_state


def _look(scene: Scene) -> Seen:
    witnesses = scene.crashed.witnesses
    states = (*witnesses.cold, *witnesses.untouched)
    for state in states:
        if difference := _difference(scene, state):
            return False, difference
    rows = sum(state.rows for state in states)
    detail = f"{len(states)} tables with {rows:,} rows are as before"
    if witnesses.why_untouched:
        detail += f"; of the user's tables nothing is known: {witnesses.why_untouched}"
    return True, detail


def _difference(scene: Scene, state: TableState) -> str:
    if state.digest is None:
        now = TableState(state.name, count_rows(scene.conn, state.name), None)
    else:
        now = table_state(scene.conn, state.name)
    if now.rows != state.rows:
        return f"{state.name} has {now.rows:,} rows and had {state.rows:,}"
    if now.digest != state.digest:
        return f"{state.name} has other contents than before"
    return ""


CHECK = CheckRule("cold-tables", Stage.READING, _look)
