"""Sums that stay equal: every transaction of pgbench adds the same to several tables; an order of
business takes from the stock what its lines say; a record of entity-resolution is in one entity,
and the payments of a warehouse of tpcc-like are those of its districts."""

from __future__ import annotations

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.drill._workloads import differences
from pgdyno.drill.witnesses import ZeroSum, balances
from pgdyno.workload import CHECKED, OWN, Tables, consistency


def _run(context: CheckContext) -> CheckResult:
    witnesses = context.crashed.witnesses
    before = witnesses.zero_sum
    results = []
    if before is not None:
        results.append(_balances(context, before))
    for kind in (Tables.BUSINESS, *CHECKED):
        if OWN[kind].name in witnesses.checked:
            by_sums = kind is Tables.BUSINESS
            results.append(_business(context) if by_sums else _rules(context, kind))
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


def _rules(context: CheckContext, kind: Tables) -> tuple[bool, str]:
    found = consistency(context.conn, kind)
    broken = [f"{count:,} {rule}" for rule, count in found.broken.items() if count]
    if broken:
        return False, f"{OWN[kind].what} do not agree: {', '.join(broken)}"
    counts = ", ".join(f"{count:,} {name}" for name, count in found.counts.items())
    return True, f"{OWN[kind].what} agree: {counts}"


CHECK = CheckRule("zero-sum", Stage.READING, _run)
