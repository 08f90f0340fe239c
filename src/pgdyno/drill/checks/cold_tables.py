"""Tables that the load did not change have the same rows, by number and hash."""

from __future__ import annotations

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill.witnesses import TableContents, count_rows, table_state


def _run(context: CheckContext) -> CheckResult:
    witnesses = context.crashed.witnesses
    states = (*witnesses.cold, *witnesses.untouched)
    for state in states:
        if difference := _difference(context, state):
            return False, difference
    rows = sum(state.rows for state in states)
    detail = f"{len(states)} tables with {rows:,} rows are unchanged"
    if witnesses.why_untouched:
        detail += f"; nothing is known of the user's tables: {witnesses.why_untouched}"
    return True, detail


def _difference(context: CheckContext, state: TableContents) -> str:
    if state.digest is None:
        now = TableContents(state.name, count_rows(context.conn, state.name), None)
    else:
        now = table_state(context.conn, state.name)
    if now.rows != state.rows:
        return f"{state.name} has {now.rows:,} rows and had {state.rows:,} before"
    if now.digest != state.digest:
        return f"the contents of {state.name} have changed"
    return ""


CHECK = CheckRule("cold-tables", Stage.READING, _run)
