"""The reason why an index cannot be used, in words, and SQL against it."""

from __future__ import annotations

from pgdyno.facts.situation import Situation
from pgdyno.plans.conditions import TRIED_INDEX
from pgdyno.record import UnusableIndex, WhyUnusable
from pgdyno.record.finding import Evidence
from pgdyno.spec.sql_text import on_one_line, relation, shortened

_WORDS = {
    WhyUnusable.INVALID: "is invalid",
    WhyUnusable.PREDICATE: "has only the rows with {detail}",
    WhyUnusable.METHOD: "is of the method {detail}",
    WhyUnusable.LATER_COLUMN: "begins with {detail}",
    WhyUnusable.OF_EXPRESSION: "is on {detail}",
    WhyUnusable.CAST: "is on the column, which the condition casts: {detail}",
    WhyUnusable.EXPRESSION: "is on the column, and the condition compares {detail}",
    WhyUnusable.VOLATILE: "cannot find the result of {detail}, which is volatile",
    WhyUnusable.COLLATION: "has another collation than {detail}",
    WhyUnusable.OPERATOR_CLASS: "does not serve the operator by its class {detail}",
}


def reason_words(unusable: UnusableIndex) -> str:
    """Return a clause on an index that cannot be used."""
    detail = shortened(on_one_line(unusable.detail))
    return f"the index {unusable.index_name} {_WORDS[unusable.reason].format(detail=detail)}"


def reason_evidence(s: Situation, unusable: UnusableIndex) -> list[Evidence]:
    """Return the index, what is compared, and the reason."""
    return [
        s.evidence("index that cannot be used", unusable.index_name, ""),
        s.evidence("compared", unusable.compared, ""),
        s.evidence("reason", unusable.reason.value, ""),
        *([s.evidence("reason in full", unusable.detail, "")] if unusable.detail else []),
    ]


def commands_for(unusable: UnusableIndex) -> list[str]:
    """Return SQL that lets it, or another one, be used, where that is certain."""
    if unusable.reason is WhyUnusable.INVALID:
        return [f"REINDEX INDEX CONCURRENTLY {relation(unusable.index_name)}"]
    if unusable.reason is WhyUnusable.VOLATILE and unusable.detail and unusable.make:
        return [f"ALTER FUNCTION {on_one_line(unusable.detail)} STABLE"]
    if not unusable.make:
        return []
    tried, wanted = f"create index {TRIED_INDEX} on", "CREATE INDEX CONCURRENTLY ON"
    return [on_one_line(unusable.make.replace(tried, wanted, 1))]
