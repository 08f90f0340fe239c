"""The server works: it inserts, updates, deletes, advances sequences and makes a checkpoint."""

from __future__ import annotations

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill._queries import query, statements

_WRITTEN = (400, 400, 500, 500)
"""Counts in ``sql/written.sql`` of the rows from ``sql/write_on.sql``."""


def _run(context: CheckContext) -> CheckResult:
    for statement in statements("write_on"):
        context.conn.execute(statement)
    context.conn.execute("checkpoint")
    found = context.conn.execute(query("written")).fetchone()
    if found != _WRITTEN:
        return False, f"rows just written: {found} found instead of {_WRITTEN}"
    return True, f"{sum(_WRITTEN[::2])} rows written and found, and a checkpoint made"


CHECK = CheckRule("writable", Stage.WRITING, _run, deep=True)
