"""pgbench's balances: every transaction adds the same to several tables, so sums stay in step."""

from __future__ import annotations

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage
from pgdyno.drill.witnesses import balances


def _look(scene: Scene) -> Seen:
    before = scene.crashed.witnesses.zero_sum
    if before is None:
        return None, scene.crashed.witnesses.why_no_zero_sum
    now = balances(scene.conn, all_alike=before.all_alike)
    sums = (
        f"accounts {now.accounts - before.accounts:+,}, tellers {now.tellers - before.tellers:+,},"
        f" branches {now.branches - before.branches:+,}, history {now.history - before.history:+,}"
    )
    passed = now.differences() == before.differences()
    return passed, sums if passed else f"balances are out of step: {sums}"


CHECK = CheckRule("zero-sum", Stage.READING, _look)
