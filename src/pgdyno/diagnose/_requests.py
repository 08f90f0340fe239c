"""The latency budget of each kind of request to a web front end that pgdyno started.

The clients measure how long each request of their scripts takes, and the front end divides the time
of each of its pages: the wait for a connection, the database, its own work. What passes outside is
HTTP and the queue for a thread, in the proportion of all requests. The time with the database is
divided by what was sampled of statements that begin with a comment that names the page. COMMIT has
none, and neither has a session that was seen between two statements: what is left of the parts of
the database belongs to the pages in proportion to what is left of their time there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pgdyno.facts.budget import CLIENT_PARTS, Part
from pgdyno.facts.front import PageLoad
from pgdyno.facts.situation import Situation
from pgdyno.facts.statement_budgets import (
    SAMPLED_AS,
    Sampled,
    StatementTimeBudget,
    events_of,
    fitted,
    largest_first,
    sampled_texts,
)
from pgdyno.probe.statement_shapes import page_of
from pgdyno.record import StatementTotal
from pgdyno.record.finding import Skip

Parts = dict[Part, float]
_ELSEWHERE: tuple[Part, ...] = (*CLIENT_PARTS, "pause", "late", "unknown")
"""Parts that are not the database's."""


def request_budgets(s: Situation) -> list[StatementTimeBudget]:
    """Return the budget of each kind of request, those that take the most time first; none without
    a front end that pgdyno started, or without its counts."""
    if s.front is None:
        return []
    try:
        pages = {page.path: page for page in s.front_load.pages}
    except Skip:
        return []
    known = [
        (total, pages[path])
        for total in s.statements
        if total.service.count and (path := path_of(total.statement)) in pages
    ]
    done = s.throughput_tps * s.seconds
    rates = [total.service.count / done for total, _ in known]
    sampled = _sampled_by_page(s, [page.path for _, page in known])
    databases = _of_database(s, [page for _, page in known], rates, sampled)
    found = [
        _budget_of(s, total, page, rate, database, seen)
        for (total, page), rate, database, seen in zip(
            known, rates, databases, sampled, strict=True
        )
    ]
    return sorted(found, key=lambda each: -each.ms * each.executions_per_transaction)


def path_of(request: str) -> str:
    """Return the path of a request as a script has it, such as ``GET /order?items=7``."""
    return request.partition(" ")[2].partition("?")[0]


def _budget_of(
    s: Situation,
    total: StatementTotal,
    page: PageLoad,
    rate: float,
    database: Mapping[Part, float],
    seen: Sampled,
) -> StatementTimeBudget:
    ms = total.service.mean / 1e6
    collection_ms = min(page.application_ms, s.front_load.collecting * page.took_ms)
    within: Parts = {
        "front pool": page.pool_ms,
        "application": page.application_ms - collection_ms,
        "collection": collection_ms,
        **database,
    }
    parts = fitted(within, ms)
    outside_ms = max(0.0, ms - sum(parts.values()))
    queue = s.budget.share("connector")
    on_the_way = s.budget.share("connector", "http")
    parts["connector"] = outside_ms * (queue / on_the_way if on_the_way > 0 else 0.0)
    parts["http"] = outside_ms - parts["connector"]
    return StatementTimeBudget(total, rate, ms, largest_first(parts), events_of(parts, seen))


def _of_database(
    s: Situation, pages: Sequence[PageLoad], rates: Sequence[float], sampled: Sequence[Sampled]
) -> list[Parts]:
    """Divide the time of each page with the database; the parts add up to it."""
    whole = {p: ms for p, ms in s.budget.parts_ms.items() if p not in _ELSEWHERE and ms > 0}
    if not whole:
        return [{"unknown": page.database_ms} for page in pages]
    each: list[Parts] = [{} for _ in pages]
    for part, ms in whole.items():
        for mine, rate, share in zip(each, rates, _shares(s, part, sampled), strict=True):
            mine[part] = ms * share / rate
    each = [fitted(mine, page.database_ms) for mine, page in zip(each, pages, strict=True)]
    nobodys = {
        part: max(0.0, ms - sum(mine[part] * rate for mine, rate in zip(each, rates, strict=True)))
        for part, ms in whole.items()
    }
    together_ms = sum(nobodys.values())
    for mine, page in zip(each, pages, strict=True):
        left_ms = page.database_ms - sum(mine.values())
        for part, ms in nobodys.items():
            mine[part] += left_ms * ms / together_ms if together_ms > 0 else 0.0
    return each


def _shares(s: Situation, part: Part, sampled: Sequence[Sampled]) -> list[float]:
    """Return each page's share of the sessions sampled in the class of a part, 0 to 1."""
    name = SAMPLED_AS.get(part, part)
    each = [sum(seen.get(name, {}).values()) for seen in sampled]
    whole = max(sum(n for of, n in s.by_class.items() if of == name), sum(each))
    return [sessions / whole if whole > 0 else 0.0 for sessions in each]


def _sampled_by_page(s: Situation, paths: Sequence[str]) -> list[Sampled]:
    """Return the samples of the statements of each path; of a statement that several kinds of
    request have, the same part for each."""
    found: dict[str, Sampled] = {path: defaultdict(lambda: defaultdict(float)) for path in paths}
    for text, waits in sampled_texts(s).items():
        path = page_of(text)
        for (name, event), average in waits.items() if path in found else ():
            found[path][name][event] += average / paths.count(path)
    return [found[path] for path in paths]
