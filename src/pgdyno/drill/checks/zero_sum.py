"""Sums that stay equal: every transaction of pgbench adds the same to several tables; an order of
business takes from the stock what its lines say; a record of entity-resolution is in one entity."""

from __future__ import annotations

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill._workloads import differences
from pgdyno.drill.witnesses import ZeroSum, balances
from pgdyno.workload import consistency


def _run(context: CheckContext) -> CheckResult:
    witnesses = context.crashed.witnesses
    before = witnesses.zero_sum
    results = []
    if before is not None:
        results.append(_balances(context, before))
    if not witnesses.why_no_business:
        results.append(_business(context))
    if not witnesses.why_no_entities:
        results.append(_entities(context))
    if not results:
        return None, witnesses.why_no_zero_sum
    return all(passed for passed, _ in results), "; ".join(detail for _, detail in results)


def _balances(context: CheckContext, before: ZeroSum) -> tuple[bool, str]:
    now = balances(context.conn, all_alike=before.all_alike)
    sums = (
        f"accounts {now.accounts - before.accounts:+,}, tellers {now.tellers - before.tellers:+,},"
        f" branches {now.branches - before.branches:+,}, history {now.history - before.history:+,}"
    )
    passed = now.differences() == before.differences()
    return passed, sums if passed else f"balances have diverged: {sums}"


def _business(context: CheckContext) -> tuple[bool, str]:
    found = differences(context.conn)
    wrong = [f"{name} by {by:+,}" for name, by in found.items() if by]
    if wrong:
        return False, f"sums of business have diverged: {', '.join(wrong)}"
    return True, f"sums of business agree: {', '.join(found)}"


def _entities(context: CheckContext) -> tuple[bool, str]:
    found = consistency(context.conn)
    broken = [f"{count:,} {rule}" for rule, count in found.broken.items() if count]
    if broken:
        return False, f"the tables of entity-resolution do not agree: {', '.join(broken)}"
    return True, (
        f"the tables of entity-resolution agree: {found.records:,} records, of which"
        f" {found.unfinished:,} were cut off between two statements"
    )


CHECK = CheckRule("zero-sum", Stage.READING, _run)
