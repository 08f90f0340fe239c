"""Plans that are dearer than need be: parallel workers for little work, rows that are fetched or
skipped in vain, empty pages, and wrong estimates."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.facts.discarded_rows import LateCondition, SkippedRows
from pgdyno.facts.discarded_rows import late_conditions as late
from pgdyno.facts.discarded_rows import skipped_rows as skips
from pgdyno.facts.plans import (
    NOT_LOOKED_AT,
    TimedChange,
    is_analyzed,
    is_without_workers,
    nodes_share,
    planned_statements,
    saved_share,
    timed_settings,
    unusual_settings,
    was_looked_at,
)
from pgdyno.facts.situation import Situation
from pgdyno.facts.statistics import statements_for, timed_statistics
from pgdyno.numbers import counted, figure, listed, percent, size
from pgdyno.plans.tree import Node, misestimated
from pgdyno.record import Suspect, Suspicion, TableStatistics
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._timed_changes import (
    COST_SHARE,
    is_costly,
    proposals_of,
    refuse_if_undecided,
    saved_evidence,
    settings_title,
    time_evidence,
    trial_against,
    weight_of,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import begins_with
from pgdyno.spec.sql_text import on_one_line, relation, shortened

SHOWN = 3


@rule(
    "parallel-workers",
    false_positives="statements that are long enough for workers with other values than these",
)
def parallel_workers(s: Situation) -> Found | Cleared:
    """Parallel workers that cost more than they save: each is started for the statement, and ends
    with it.

    On a server that pgdyno started, the load's statements are executed beside it with
    max_parallel_workers_per_gather = 0 where plans start workers. Trigger: that saves at least
    ``COST_SHARE`` of the response time. Without a load beside them workers have cores of their own,
    so that under load they save even less. A setting whose default saves time, and which may be why
    workers are started, is for costly-settings. Threshold: that of costly-settings.
    """
    if not was_looked_at(s):
        raise Skip(NOT_LOOKED_AT)
    if not is_analyzed(s):
        raise Skip("statements were not executed to see how many workers they start")
    if not any(node.workers_launched for node in _nodes(s)):
        started = s.evidence("parallel workers that plans start", 0, "count")
        return Cleared("no plan starts parallel workers", [started])
    tried = [each for each in timed_settings(s) if is_without_workers(each)]
    if not tried:
        raise Skip("statements were not tried without parallel workers")
    without, title = tried[0], settings_title(tried[0])
    evidence = [
        saved_evidence(s, without, title, COST_SHARE),
        *time_evidence(s, without.statements[:1], f"with {title}"),
    ]
    if not is_costly(s, without):
        refuse_if_undecided(without, title)
        return Cleared("parallel workers take no more time than they save", evidence)
    unusual = {each.name: each.reset for each in unusual_settings(s)}
    resets = [e for e in timed_settings(s) if e.change.settings.items() <= unusual.items()]
    if any(each.is_worthwhile for each in resets):
        raise Skip("a setting at its default saves time: see costly-settings")
    worst = without.statements[0]
    return Found(
        sentence=(
            f"with parallel workers a statement takes {figure(worst.ms)} ms, and"
            f" {figure(worst.changed_ms)} ms without: {shortened(worst.total.statement)}"
        ),
        confidence=0.9,
        evidence=evidence,
        causes=("missing-index", "wrong-estimates"),
        proposals=proposals_of(
            s, tried, "no-parallel-workers", "no process would be started for a statement"
        ),
        **weight_of(s, without),
    )


FETCHED_SHARE = 0.5


@rule(
    "heap-fetches",
    false_positives="rows that are changed faster than any vacuum could mark their pages",
)
def heap_fetches(s: Situation) -> Found | Cleared:
    """Index-only scans that look up rows in the table all the same, as its pages are not marked as
    visible to all: only vacuum marks them.

    By EXPLAIN ANALYZE of the load's statements, on a server that pgdyno started. Trigger: an
    index-only scan looks up at least ``FETCHED_SHARE`` of its rows, and takes at least
    ``COST_SHARE`` of the response time. It is minor: how much of the scan's time goes is not known
    before the table is vacuumed, which cannot be tried in a transaction. Thresholds: ours.
    """
    if not was_looked_at(s):
        raise Skip(NOT_LOOKED_AT)
    if not is_analyzed(s):
        raise Skip("statements were not executed to see what their scans fetch")
    found = [
        (each, node, nodes_share(s, each, [node]))
        for each in planned_statements(s)
        if each.plan is not None
        for node in each.plan.nodes()
        if node.heap_fetches and node.heap_fetches >= FETCHED_SHARE * (node.rows or 0.0)
    ]
    if not found:
        scans = s.evidence("index-only scans that look up most of their rows", 0, "count")
        return Cleared("no index-only scan looks up most of its rows in the table", [scans])
    each, node, share = max(found, key=lambda one: one[2])
    evidence = [
        s.evidence("time of the scan / response time", share, "share", _bar()),
        s.evidence("rows looked up in the table", node.heap_fetches, "rows"),
        s.evidence("rows of the scan", node.rows, "rows"),
        s.evidence("index", node.index, ""),
        s.evidence("table", node.relation, ""),
    ]
    if share < COST_SHARE:
        return Cleared("index-only scans that look up rows in the table take little time", evidence)
    return Found(
        sentence=(
            f"an index-only scan of {node.relation} looks up {figure(node.heap_fetches)} of"
            f" {figure(node.rows)} rows in the table, as pages are not marked as visible to all:"
            f" {shortened(each.total.statement)}"
        ),
        share=0.0,
        severity="minor",
        confidence=0.8,
        evidence=evidence,
        advice="vacuum the table, and let autovacuum come earlier where rows are only inserted:"
        " autovacuum_vacuum_insert_scale_factor",
        commands=[f"VACUUM {relation(node.relation)}"],
    )


@rule(
    "skipped-rows",
    false_positives="values of the sampled transactions that skip more rows than the load does",
)
def skipped_rows(s: Situation) -> Found | Cleared:
    """Rows that a statement reads only to skip them, by OFFSET: pages of a long list, each of which
    costs as much as all pages before it.

    By EXPLAIN ANALYZE of the load's statements, on a server that pgdyno started. Trigger: skipping
    takes at least ``COST_SHARE`` of the response time, from the first row that is skipped to the
    first that is returned; a sort that must come before is not part of it. The gain predicted is
    that of statements without this time. Threshold: that of costly-settings.
    """
    found = skips(s)
    worth = [each for each in found if saved_share(s, each.timed) >= COST_SHARE]
    if not worth:
        if not is_analyzed(s):
            raise Skip("statements were not executed to see how many rows they skip")
        evidence = [item for each in found[:1] for item in _skips_evidence(s, each)]
        count = s.evidence("statements that skip rows", len(found), "count")
        return Cleared("rows that statements skip take little time", [count, *evidence])
    worst = worth[0]
    rows = counted(worst.skipped, "row", "rows")
    return Found(
        sentence=(
            f"a statement skips {rows} before the {figure(worst.returned)} that it returns, in"
            f" {figure(worst.ms)} of its {figure(worst.timed.statements[0].ms)} ms:"
            f" {shortened(worst.statement.total.statement)}"
        ),
        confidence=0.9,
        evidence=_skips_evidence(s, worst),
        advice="continue behind the last row that was read (WHERE key > its value ORDER BY key"
        " LIMIT n), where an index finds it, instead of by OFFSET, for which all rows before it"
        " are read",
        **weight_of(s, worst.timed),
    )


def _skips_evidence(s: Situation, each: SkippedRows) -> list[Evidence]:
    share = saved_share(s, each.timed)
    return [
        s.evidence("time of skipping rows / response time", share, "share", _bar()),
        s.evidence("rows skipped", each.skipped, "rows"),
        s.evidence("rows returned", each.returned, "rows"),
        s.evidence("time of skipping them", each.ms, "ms"),
        s.evidence("statement", each.statement.total.statement, ""),
    ]


@rule(
    "late-conditions",
    false_positives=(
        "a condition on what the subquery computes from all rows, as an aggregate: it cannot stand"
        " within"
    ),
)
def late_conditions(s: Situation) -> Found | Cleared:
    """Conditions that are applied after a subquery has read all rows: the planner does not move
    them into one that is materialized, or that has LIMIT, OFFSET, DISTINCT ON or window functions,
    of which they would change the result. Views hide such subqueries. What window functions
    compute needs all rows: a condition on that is not meant.

    By EXPLAIN ANALYZE of the load's statements, on a server that pgdyno started: a scan of a
    subquery or of a common table expression reads many rows and keeps few. Trigger: its time, for
    the rows that are removed, is at least ``COST_SHARE`` of the response time. No gain is promised
    beyond that time. Thresholds: many and few are those of missing-index; the other is that of
    costly-settings.
    """
    found = late(s)
    worth = [each for each in found if saved_share(s, each.timed) >= COST_SHARE]
    if not worth:
        if not is_analyzed(s):
            raise Skip("statements were not executed to see how many rows conditions remove")
        count = s.evidence("subqueries of which a condition keeps few rows", len(found), "count")
        evidence = [item for each in found[:1] for item in _late_evidence(s, each)]
        return Cleared("conditions on subqueries cost little time", [count, *evidence])
    worst = worth[0]
    return Found(
        sentence=(
            f"a condition keeps {figure(worst.kept)} of {figure(worst.read)} rows after a subquery"
            f" has read them, in {figure(worst.ms)} of the statement's"
            f" {figure(worst.timed.statements[0].ms)} ms: {shortened(on_one_line(worst.condition))}"
        ),
        confidence=0.9,
        evidence=_late_evidence(s, worst),
        advice="write the condition within the subquery or the view, where that gives the same"
        " rows; WITH … AS NOT MATERIALIZED lets the planner do so",
        **weight_of(s, worst.timed),
    )


def _late_evidence(s: Situation, each: LateCondition) -> list[Evidence]:
    share = saved_share(s, each.timed)
    return [
        s.evidence("time of rows that are removed / response time", share, "share", _bar()),
        s.evidence("rows read by the subquery", each.read, "rows"),
        s.evidence("rows kept", each.kept, "rows"),
        s.evidence("condition", each.condition, ""),
        s.evidence("statement", each.statement.total.statement, ""),
    ]


@rule(
    "bloated-table",
    false_positives="a table that is filled again each day, and has its size then",
)
def bloated_table(s: Situation) -> Found | Cleared:
    """A table with many more pages than its rows need, which statements read as a whole: the pages
    were not given back, vacuum comes too late, or a fillfactor leaves them empty.

    On a server that pgdyno started, such a table is written again in a transaction that is rolled
    back, and the load's statements are executed before and after. Trigger: that saves at least
    ``COST_SHARE`` of the response time. Threshold: that of costly-settings. Bloat that the load
    itself makes is found by the rules of autovacuum.
    """
    tried = trial_against(s, Suspicion.BLOATED, "what is empty in it")
    if tried is None:
        if not is_analyzed(s):
            raise Skip("statements were not executed to compare rows with pages")
        none = s.evidence("tables with many more pages than their rows need", 0, "count")
        return Cleared("no scan reads a table with many more pages than its rows need", [none])
    timed, table = tried
    worst, title = timed.statements[0], f"{table.relation} written again"
    evidence = [
        saved_evidence(s, timed, title, COST_SHARE),
        s.evidence("size of the table", table.size_bytes, "bytes"),
        *time_evidence(s, timed.statements[:1], f"time of it with {title}"),
    ]
    if not is_costly(s, timed):
        refuse_if_undecided(timed, title)
        return Cleared("a table that is written again saves no time", evidence)
    return Found(
        sentence=(
            f"most of the {size(table.size_bytes)} of {table.relation} is empty: a statement takes"
            f" {figure(worst.ms)} ms, and {figure(worst.changed_ms)} ms after the table was written"
            f" again: {shortened(worst.total.statement)}"
        ),
        confidence=0.9,
        evidence=evidence,
        causes=("autovacuum-off", "autovacuum-slow", "autovacuum-threshold", "xmin-pinned"),
        advice="VACUUM FULL locks the table while it works; pg_repack and pg_squeeze do not. See"
        " that autovacuum is on for the table and comes often enough",
        commands=_rewriting(table),
        **weight_of(s, timed),
    )


def _rewriting(table: Suspect) -> list[str]:
    """Return the commands that write a table again as it was tried."""
    full = [f"ALTER TABLE {relation(table.relation)} RESET (fillfactor)"]
    commands = full if begins_with(table.make, ("alter table",)) else []
    return [*commands, f"VACUUM FULL {relation(table.relation)}"]


def _bar() -> str:
    return f"at least {percent(COST_SHARE)}"


def _nodes(s: Situation) -> list[Node]:
    plans = [each.plan for each in planned_statements(s) if each.plan is not None]
    return [node for plan in plans for node in plan.nodes()]


@rule(
    "wrong-estimates",
    false_positives="statistics that autovacuum was about to make",
)
def wrong_estimates(s: Situation) -> Found | Cleared:
    """Plans that turn on wrong estimates: statistics of a table are missing or old.

    On a server that pgdyno started, ANALYZE is tried of the tables of which a plan gave ten times
    more or fewer rows than was expected, in a transaction that is rolled back; where a column's
    statistics target is 0, or its number of distinct values set by hand, without that. Trigger: it
    saves at least ``COST_SHARE`` of the response time. On other servers a table without any
    statistics is named, and nothing is predicted. Threshold: that of costly-settings.
    """
    if not was_looked_at(s):
        raise Skip(NOT_LOOKED_AT)
    tried = timed_statistics(s)
    if tried and is_costly(s, tried[0][0]):
        return _timed(s, *tried[0])
    if not is_analyzed(s):
        return _unexecuted(s, s.run.table_statistics(s.slice_ids))
    off = [
        node.relation
        for each in planned_statements(s)
        if each.plan is not None
        for node in misestimated(each.plan)
    ]
    evidence = [
        s.evidence("tables with estimates ten times off", len({*off}), "count"),
        *(_saved(s, each, statistics) for each, statistics in tried),
    ]
    if off and not tried:
        raise Skip(
            f"estimates of {listed(sorted({*off}), SHOWN)} are off, and ANALYZE was not tried"
        )
    for each, statistics in tried:
        refuse_if_undecided(each, f"ANALYZE of {statistics.relation}")
    return Cleared("better statistics of the tables would save nothing", evidence)


def _saved(s: Situation, timed: TimedChange, statistics: TableStatistics) -> Evidence:
    return saved_evidence(s, timed, f"ANALYZE of {statistics.relation}", COST_SHARE)


def _timed(s: Situation, best: TimedChange, statistics: TableStatistics) -> Found:
    table, worst = statistics.relation, best.statements[0]
    why = "has no statistics" if not statistics.has_statistics else "has wrong statistics"
    return Found(
        sentence=(
            f"{table} {why}: a statement takes {figure(worst.ms)} ms, and"
            f" {figure(worst.changed_ms)} ms after ANALYZE: {shortened(worst.total.statement)}"
        ),
        confidence=0.9,
        evidence=[
            _saved(s, best, statistics),
            *time_evidence(s, best.statements[:1], "time of it after ANALYZE"),
        ],
        advice="see that autovacuum analyzes the table: whether it is off for it, and its"
        " autovacuum_analyze_scale_factor",
        commands=_commands(statistics),
        **weight_of(s, best),
    )


def _unexecuted(s: Situation, known: Sequence[TableStatistics]) -> Found | Cleared:
    """Judge by the catalogs alone."""
    lacking = [each for each in known if not each.has_statistics or each.repairs]
    if not lacking:
        raise Skip("statements were not executed to compare their rows with the estimates")
    return Found(
        sentence=(
            f"{listed([each.relation for each in lacking], SHOWN)}"
            f" {'has' if len(lacking) == 1 else 'have'} no statistics of all columns, so that plans"
            " of the load's statements are guesses; what that costs was not measured"
        ),
        share=0.0,
        severity="minor",
        confidence=0.6,
        evidence=[s.evidence("table without statistics", e.relation, "") for e in lacking[:SHOWN]],
        commands=[each for one in lacking[:SHOWN] for each in _commands(one)],
    )


def _commands(statistics: TableStatistics) -> list[str]:
    return [_as_command(each) for each in statements_for(statistics)]


def _as_command(statement: str) -> str:
    words = {"alter table": "ALTER TABLE", "analyze": "ANALYZE"}
    for word, upper in words.items():
        if statement.startswith(word):
            return upper + statement[len(word) :]
    return statement
