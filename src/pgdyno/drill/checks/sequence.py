"""A sequence is not behind the numbers of the transactions that are present."""

from __future__ import annotations

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill.witnesses import WITNESS_TABLE, last_number


def _run(context: CheckContext) -> CheckResult:
    row = context.conn.execute(f"select max(number) from {WITNESS_TABLE}".encode()).fetchone()
    used = max((row[0] if row else None) or 0, context.crashed.witnesses.number)
    last = last_number(context.conn)
    detail = f"the sequence is at {last:,}, and {used:,} is the highest number in use"
    return last >= used, detail


CHECK = CheckRule("sequence", Stage.READING, _run)
