"""An unlogged table is empty after a crash, as documented, and complete after a clean shutdown."""

from __future__ import annotations

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill._recovery import log_since
from pgdyno.drill.witnesses import READY, UNLOGGED_TABLE, count_rows

_EMPTYING = ("was interrupted", "was not properly shut down", "entering standby mode")
"""Log messages of a server that empties unlogged tables as it starts. Several servers may have
started since, and the last one may have been shut down cleanly."""


def _run(context: CheckContext) -> CheckResult:
    before = context.crashed.witnesses.unlogged_rows
    rows = count_rows(context.conn, UNLOGGED_TABLE)
    log = log_since(context.cluster, 0).rpartition(READY)[2]
    emptied = context.recovery.crashed or any(words in log for words in _EMPTYING)
    after = "a crash" if emptied else "a clean shutdown"
    expected = 0 if emptied else before
    if rows != expected:
        return False, f"{rows} rows after {after}, instead of {expected}"
    return True, f"{rows} rows after {after}, as documented"


CHECK = CheckRule("unlogged", Stage.READING, _run)
