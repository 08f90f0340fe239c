"""pg_amcheck of the whole database: tables, indexes, and their agreement."""

from __future__ import annotations

from pgdyno.drill._checking import SECONDS_MAX, CheckContext, CheckResult, CheckRule, Stage
from pgdyno.server.local.amcheck import amcheck


def _run(context: CheckContext) -> CheckResult:
    installed = context.conn.execute(
        "select from pg_extension where extname = 'amcheck'"
    ).fetchone()
    if installed is None:
        return None, "this build of PostgreSQL has no amcheck"
    return amcheck(context.cluster.installation, context.crashed.conninfo, seconds_max=SECONDS_MAX)


CHECK = CheckRule("amcheck", Stage.READING, _run, deep=True)
