"""pgbench's balances: every transaction adds the same to several tables, so sums stay equal."""

from __future__ import annotations

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill.witnesses import balances


def _run(context: CheckContext) -> CheckResult:
    before = context.crashed.witnesses.zero_sum
    if before is None:
        return None, context.crashed.witnesses.why_no_zero_sum
    now = balances(context.conn, all_alike=before.all_alike)
    sums = (
        f"accounts {now.accounts - before.accounts:+,}, tellers {now.tellers - before.tellers:+,},"
        f" branches {now.branches - before.branches:+,}, history {now.history - before.history:+,}"
    )
    passed = now.differences() == before.differences()
    return passed, sums if passed else f"balances have diverged: {sums}"


CHECK = CheckRule("zero-sum", Stage.READING, _run)
