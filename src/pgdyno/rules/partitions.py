"""Partitions that statements read without finding a row in them."""

from __future__ import annotations

from pgdyno.facts.partitions import ReadPartitions, WhyUnpruned, read_partitions
from pgdyno.facts.plans import is_analyzed, planned_statements, saved_share
from pgdyno.facts.situation import Situation
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._timed_changes import COST_SHARE, weight_of
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.sql_text import shortened

EMPTY_MIN = 10
_WORDS = {
    WhyUnpruned.SETTING: "enable_partition_pruning is off",
    WhyUnpruned.NO_CONDITION: "no condition compares a column of the key",
    WhyUnpruned.EXPRESSION: "a condition has a column of the key within an expression",
    WhyUnpruned.VALUES: "the values that it compares with the key do not exclude them in time",
}
_ADVICE = {
    WhyUnpruned.SETTING: "turn enable_partition_pruning on",
    WhyUnpruned.NO_CONDITION: "let the statement compare the key, as it knows it, or choose a key"
    " that the statements know; fewer partitions cost less where none of that is possible",
    WhyUnpruned.EXPRESSION: "compare the column of the key itself, with a value of its type",
    WhyUnpruned.VALUES: "compare the key with a constant or a parameter, not with the result of a"
    " subquery, a join or a volatile function",
}


@rule(
    "unpruned-partitions",
    false_positives="values of the sampled transactions that are rarer than those of the load",
)
def unpruned_partitions(s: Situation) -> Found | Cleared:
    """Partitions that a statement reads although none of their rows meets its conditions.

    By EXPLAIN ANALYZE of the load's statements, on a server that pgdyno started. Trigger: a
    statement reads at least ``EMPTY_MIN`` partitions of a table that give no row, and this takes at
    least ``COST_SHARE`` of the response time. The gain predicted is that of statements without this
    time; planning, which is longer with each partition too, is for parse-plan. Thresholds: that of
    a missing index; fewer partitions than ten are as quickly read.
    """
    found = read_partitions(s)
    if not found:
        looked_at = s.evidence(
            "statements whose plans read no partition", len(planned_statements(s)), "count"
        )
        return Cleared("no statement reads partitions", [looked_at])
    unexecuted = [each for each in found if each.timed is None and each.read >= EMPTY_MIN]
    if unexecuted and not is_analyzed(s):
        worst = max(unexecuted, key=lambda each: each.read)
        raise Skip(
            f"a statement reads {worst.read} of {worst.partitions} partitions of {worst.root}, and"
            f" how many rows it finds in them was not measured: {_WORDS[worst.why]}"
        )
    empty = [each for each in found if (each.empty or 0) >= EMPTY_MIN]
    worth = [each for each in empty if _share(s, each) >= COST_SHARE]
    if not worth:
        evidence = [item for each in empty[:1] for item in _evidence(s, each)]
        return Cleared("partitions without rows for the statements take little time", evidence)
    worst = max(worth, key=lambda each: _share(s, each))
    assert worst.timed is not None, "it has a share"
    statement = worst.statement.total.statement
    return Found(
        sentence=(
            f"a statement reads {worst.read} of {worst.partitions} partitions of {worst.root},"
            f" {worst.empty} of them for no row, in {figure(worst.empty_ms)} ms, as"
            f" {_WORDS[worst.why]}: {shortened(statement)}"
        ),
        confidence=0.9,
        evidence=_evidence(s, worst),
        advice=_ADVICE[worst.why],
        **weight_of(s, worst.timed),
    )


def _share(s: Situation, each: ReadPartitions) -> float:
    return 0.0 if each.timed is None else saved_share(s, each.timed)


def _evidence(s: Situation, each: ReadPartitions) -> list[Evidence]:
    bar, statement = f"at least {percent(COST_SHARE)}", each.statement.total.statement
    name = f"partitions of {each.root} without a row / response time"
    return [
        s.evidence(name, _share(s, each), "share", bar),
        s.evidence("partitions", each.partitions, "count"),
        s.evidence("partitions read", each.read, "count"),
        s.evidence("of them without a row", each.empty, "count", f"at least {EMPTY_MIN}"),
        s.evidence("time of these", each.empty_ms, "ms"),
        s.evidence("partition key", each.key, ""),
        s.evidence("reason", each.why.value, ""),
        s.evidence("statement", statement, ""),
    ]
