"""Indexes that are there and cannot be used as conditions are written."""

from __future__ import annotations

from pgdyno.facts.index_use import hidden_indexes, scan_share, timed_use
from pgdyno.facts.plans import (
    NOT_LOOKED_AT,
    TimedChange,
    is_analyzed,
    was_looked_at,
    work_parts,
)
from pgdyno.facts.situation import Situation
from pgdyno.facts.tables import scanned_tables
from pgdyno.numbers import figure, percent
from pgdyno.record import UnusableIndex, WhyUnusable
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._cpu_uses import cpu_parts, response_share
from pgdyno.rules._index_reasons import commands_for, reason_evidence, reason_words
from pgdyno.rules._timed_changes import (
    COST_SHARE,
    is_costly,
    refuse_if_undecided,
    saved_evidence,
    weight_of,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import title_of_sql
from pgdyno.spec.sql_text import shortened

_ADVICE = {
    WhyUnusable.CAST: "compare the column with a value of its own type, or create an index on the"
    " expression",
    WhyUnusable.EXPRESSION: "compare the column itself, or create an index on the expression",
    WhyUnusable.VOLATILE: "declare the function STABLE or IMMUTABLE, if it is, or compute its"
    " result before: in a subquery, or in the application",
    WhyUnusable.COLLATION: "compare with the collation of the column, or create an index with that"
    " of the condition",
    WhyUnusable.OPERATOR_CLASS: "create an index with an operator class for patterns, as"
    " text_pattern_ops",
}


@rule(
    "unusable-index",
    false_positives="a condition that most rows meet, for which no index would be used",
)
def unusable_index(s: Situation) -> Found | Cleared:
    """Indexes that cannot be used as conditions are written: the column is cast to another type,
    stands within an expression, or is compared with the result of a volatile function; or the
    comparison has another collation, or is one of patterns that the operator class does not know.

    A scan of a whole table compares so what an index begins with. On a server that pgdyno started,
    what would let an index be used is tried: an index on the expression, with the collation or the
    operator class, or the function declared STABLE; made in a transaction that is rolled back.
    Trigger: the best of them saves at least ``COST_SHARE`` of the response time. Where nothing
    could be tried, the scan itself takes that much, by the plan as it was executed; on other
    servers, by the estimate of missing-index. Then no gain is predicted.

    Indexes that cannot be used for a reason of their own (invalid, partial, of another method, with
    the column behind another one) are named by missing-index. Threshold: that of missing-index.
    """
    if not was_looked_at(s):
        raise Skip(NOT_LOOKED_AT)
    hidden = hidden_indexes(s)
    if not hidden:
        none = s.evidence("indexes that conditions of scans cannot use", 0, "count")
        return Cleared(
            "no condition of a scan of a whole table keeps an index from being used", [none]
        )
    timed = timed_use(s, hidden)
    if timed and is_costly(s, timed[0][0]):
        return _timed(s, *timed[0])
    tried = {why.make for _, why in timed}
    untried = [each for each in hidden if each.make not in tried]
    evidence = [_saved(s, each) for each, _ in timed]
    for each, _ in timed:
        refuse_if_undecided(each, _title(each))
    if not untried:
        return Cleared("an index that could be used would save nothing", evidence)
    return _untried(s, untried, evidence)


def _timed(s: Situation, best: TimedChange, why: UnusableIndex) -> Found:
    worst = best.statements[0]
    return Found(
        sentence=(
            f"{why.relation} is read as a whole: {reason_words(why)}; a statement takes"
            f" {figure(worst.ms)} ms, and {figure(worst.changed_ms)} ms with {_remedy(why)}:"
            f" {shortened(worst.total.statement)}"
        ),
        confidence=0.95,
        evidence=[_saved(s, best), *reason_evidence(s, why)],
        advice=_ADVICE[why.reason],
        commands=commands_for(why),
        **weight_of(s, best),
    )


def _remedy(why: UnusableIndex) -> str:
    is_function = why.reason is WhyUnusable.VOLATILE
    return "the function declared STABLE" if is_function else "an index made for it"


def _saved(s: Situation, timed: TimedChange) -> Evidence:
    return saved_evidence(s, timed, _title(timed), COST_SHARE)


def _title(timed: TimedChange) -> str:
    return title_of_sql(timed.change.sql["make"])


def _untried(
    s: Situation, untried: list[UnusableIndex], evidence: list[Evidence]
) -> Found | Cleared:
    """Judge by the time of the scans what nothing was tried against."""
    worst = max(untried, key=lambda each: _scanned(s, each))
    share = _scanned(s, worst)
    evidence = [
        s.evidence(
            f"scans of {worst.relation} / response time"
            + ("" if is_analyzed(s) else " (estimate)"),
            share,
            "share",
            f"at least {percent(COST_SHARE)}",
        ),
        *reason_evidence(s, worst),
        *evidence,
    ]
    if share < COST_SHARE:
        if not is_analyzed(s):
            raise Skip(f"{reason_words(worst)}, and the time of its scans was not measured")
        return Cleared(
            f"scans that cannot use an index take {percent(share)} of the time", evidence
        )
    return Found(
        sentence=f"{worst.relation} is read as a whole: {reason_words(worst)}",
        parts=work_parts(s) if is_analyzed(s) else cpu_parts(s),
        share=share,
        removable_share=share,
        confidence=0.8 if is_analyzed(s) else 0.6,
        evidence=evidence,
        advice=_ADVICE[worst.reason],
        commands=commands_for(worst),
    )


def _scanned(s: Situation, each: UnusableIndex) -> float:
    """Return the share of the response time of scans of an index's table."""
    if is_analyzed(s):
        return scan_share(s, each.relation)
    scanned = [table.name for table in scanned_tables(s)]
    return response_share(s, "missing-index") if each.relation in scanned else 0.0
