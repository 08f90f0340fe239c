"""Indexes that are missing, and those whose list of pending entries is long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno.facts.index_use import CostlySearch, instead_of, untried_searches
from pgdyno.facts.plans import (
    ChangedStatement,
    TimedChange,
    is_analyzed,
    planned_statements,
    supposed_indexes,
    timed_indexes,
    was_looked_at,
    work_parts,
)
from pgdyno.facts.setting_costs import STATEMENT_CPU_S
from pgdyno.facts.situation import Situation
from pgdyno.facts.tables import MOST, TableCounts, compared, indexes, scanned_tables
from pgdyno.numbers import figure, percent
from pgdyno.plans.conditions import names_in
from pgdyno.plans.wanted_indexes import Search, searches
from pgdyno.record import Suspicion
from pgdyno.record.fileformat import CLIENT_BACKEND, PARALLEL_WORKER
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._cpu_uses import (
    ROW_CPU_S,
    backend_cores,
    cpu_parts,
    cpu_uses,
    ratio_of_short,
    ratio_without,
    response_share,
)
from pgdyno.rules._index_reasons import commands_for, reason_evidence, reason_words
from pgdyno.rules._pools import WORTHWHILE_RATIO
from pgdyno.rules._timed_changes import (
    COST_SHARE,
    is_costly,
    proposals_of,
    refuse_if_undecided,
    saved_evidence,
    time_evidence,
    trial_against,
    weight_of,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.index_text import IndexText, index_text, separated
from pgdyno.spec.sql_text import (
    columns_text,
    folded,
    literal,
    mentions,
    names_table,
    on_one_line,
    quoted,
    relation,
    shortened,
)
from pgdyno.wait_events import wait_class

if TYPE_CHECKING:
    from pgdyno.record import StatementTotal, UnusableIndex


SELECTIVE_SHARE = 0.2
"""Part of a table's rows beyond which an index does not help to find them; ours."""


@rule(
    "missing-index",
    false_positives=(
        "statements that need most rows of the table, as reports do; a scan that ends early,"
        " after a LIMIT; the server counts a parallel scan once for each of its processes"
    ),
)
def missing_index(s: Situation) -> Found | Cleared:
    """Missing index: statements read many rows of a table, or of an index, to find a few.

    On a server that pgdyno started, indexes are tried: of the columns or expressions that a scan
    compares and that no index begins with, of the method that has the operator; of the
    alternatives of an OR that no index serves, together; of those that a scan by another index
    compares, if its filter discards most rows or it does not compare the first column of that
    index; of those by which statements sort that want the first rows alone; and of foreign keys
    whose triggers look for rows of the referencing table. Statements within functions and triggers
    are among these. Each is made in a transaction, the load's statements are
    executed before and after, and it is rolled back. Trigger: the best of them saves at least
    ``COST_SHARE`` of the response time. Where an index is there and cannot be used, as it is
    invalid, partial, of another method, on an expression, or has the column behind another one,
    that is the reason given. Where none was tried, as the table is large or no operator class is
    known, the search itself takes that much, by the plan as it was executed; then no gain is
    predicted.

    On any other server the planner is asked for the cost with each index that would be tried, where
    the database has HypoPG. Trigger: as above, with times in proportion to costs, within a
    factor of three. Without it the trigger is an estimate: sequential scans of at least
    ``SCAN_ROWS_MIN`` rows each take at least ``COST_SHARE`` of the response time, by the rows that
    they read and ``ROW_CPU_S`` of CPU time each (see ``facts.tables`` and ``_cpu_uses``). An index
    is proposed if the planner expects a condition to leave few of the rows. Its columns are those
    that the statement with the most time on the table compares with values, where its text shows
    them.

    Thresholds: no published tool has one that counts the cost; calibrated by injection, a condition
    on a column without an index in tables of 100,000 rows.
    """
    tried = timed_indexes(s)
    if tried and is_costly(s, tried[0]):
        return _timed(s, [each for each in tried if each.is_worthwhile])
    supposed = supposed_indexes(s)
    if supposed and is_costly(s, supposed[0]):
        return _timed(s, [each for each in supposed if each.is_worthwhile], by_cost=True)
    if is_analyzed(s):
        return _without_index(s, tried)
    scanned = scanned_tables(s)
    share = response_share(s, "missing-index")
    evidence = _missing_index_evidence(s, scanned, share)
    if not scanned:
        if behind := _searched_behind(s):
            raise Skip(f"{behind}, and how long that takes was not measured")
        return Cleared("no table of many rows is read as a whole", evidence)
    if share < COST_SHARE:
        raise Skip(
            f"sequential scans of {scanned[0].name} are estimated to take {percent(share)} of the"
            " response time, which was not measured"
        )
    worst = scanned[0]
    statement = _statement(s, worst)
    columns = _columns(s, worst) if _is_selective(s, worst) is not False else ()
    where = f": {statement}" if statement else ""
    why = instead_of(s, worst.name, quoted(columns[0])) if columns else None
    because = f", as {reason_words(why)}" if why is not None else ""
    return Found(
        sentence=f"{worst.name} is read as a whole, {_rows_words(s, worst)}{because}{where}",
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        gain=ratio_without(s, cpu_uses(s)["missing-index"]),
        confidence=0.8 if statement else 0.6,
        evidence=[*evidence, *(reason_evidence(s, why) if why is not None else ())],
        proposals=_index(s, worst, columns),
        advice=_advice(s, worst, columns),
        commands=commands_for(why) if why is not None else (),
    )


def _searched_behind(s: Situation) -> str:
    """Return a clause on a search by other columns of an index than its first one; '' if the plans
    have none."""
    plans = [each.plan for each in planned_statements(s)] if was_looked_at(s) else []
    found = (
        _behind_words(each.table_in(plan), each)
        for plan in plans
        if plan is not None
        for each in searches(plan)
        if each.behind
    )
    return next(found, "")


def _advice(s: Situation, table: TableCounts, columns: tuple[str, ...]) -> str:
    if _is_selective(s, table) is False:
        return (
            "the planner expects the condition to leave most rows, so that no index helps: let the"
            " statement ask for fewer rows, or keep a sum of them"
        )
    return (
        f"create an index of {relation(table.name)} on"
        f" {columns_text(columns) or 'the columns that the statement compares'}, if EXPLAIN shows"
        " that a filter removes most rows"
    )


def _is_selective(s: Situation, table: TableCounts) -> bool | None:
    """Return whether the planner expects the conditions of scans of a table to leave few rows;
    None if the plans do not tell."""
    if not was_looked_at(s):
        return None
    nodes = [n for each in planned_statements(s) if each.plan for n in each.plan.nodes()]
    scans = [n for n in nodes if n.relation == table.name and n.reads_whole_table]
    if not scans:
        return None
    read = table.scanned_rows / table.scans
    return any(n.rows_planned <= SELECTIVE_SHARE * read for n in scans)


def _timed(s: Situation, tried: list[TimedChange], *, by_cost: bool = False) -> Found:
    """Name the index that saves most, and propose each that saves enough: by times with it and
    without, or ``by_cost``, as the planner expects."""
    best, worst = tried[0], tried[0].statements[0]
    table, indexes = _indexes_of(best)
    why = instead_of(s, table, indexes[0].keys.split(", ")[0])
    return Found(
        sentence=(
            f"{_lacking(s, best, why)}: {_times_words(worst, len(indexes), by_cost=by_cost)}:"
            f" {shortened(worst.total.statement)}"
        ),
        confidence=0.7 if by_cost else 0.95,
        evidence=[*_tried(s, tried), *(reason_evidence(s, why) if why is not None else ())],
        proposals=proposals_of(
            s,
            tried,
            "create-index",
            "the statement would read the rows that it finds, not the whole table",
        ),
        advice=_create_words(table, indexes),
        commands=commands_for(why) if why is not None else (),
        **weight_of(s, best),
    )


def _times_words(worst: ChangedStatement, number: int, *, by_cost: bool) -> str:
    """Return a clause on the time of a statement without and with so many indexes."""
    them = "it" if number == 1 else "them"
    if by_cost:
        cost = percent(worst.changed_ms / worst.ms)
        return f"the planner expects {cost} of a statement's cost with {them} (HypoPG)"
    return f"a statement takes {figure(worst.ms)} ms, and {figure(worst.changed_ms)} ms with {them}"


def _indexes_of(timed: TimedChange) -> tuple[str, list[IndexText]]:
    """Return the table and the indexes that were tried together."""
    ((table, text),) = timed.change.indexes.items()
    return table, [*map(index_text, separated(text))]


def _create_words(table: str, indexes: Sequence[IndexText]) -> str:
    """Return an advice to create indexes, with the extensions that they need."""
    behind = (f"on {each.keys}" if each.columns else each.sql for each in indexes)
    extensions = sorted({name for each in indexes for name in each.extensions})
    first = f"create the extension {', '.join(extensions)} and " if extensions else "create "
    return f"{first}an index of {relation(table)} {' and another '.join(behind)}"


def _lacking(s: Situation, timed: TimedChange, why: UnusableIndex | None) -> str:
    """Return a clause on the indexes that are missing, with the one that is there and cannot be
    used, or the foreign key whose check takes most of the time that they spare."""
    table, indexes = _indexes_of(timed)
    spared_ms = timed.statements[0].ms - timed.statements[0].changed_ms
    titles = " and no ".join(each.title for each in indexes)
    plans = [each.plan for each in planned_statements(s) if each.plan is not None]
    checks = [each for plan in plans for each in plan.triggers if each.constraint]
    found = [each for p in plans for each in searches(p) if each.table_in(p) == table]
    if found and not any(each.node.reads_whole_table for each in found):
        return _lacking_beside(found, table, titles)
    if why is not None:
        return f"{table} is read as a whole, as {reason_words(why)}"
    dearest = max(checks, key=lambda each: each.time_ms, default=None)
    if dearest is not None and not found and dearest.time_ms >= MOST * spared_ms:
        return (
            f"{table} has no {titles}, so that the foreign key {dearest.constraint} reads it"
            " as a whole for each row that it refers to"
        )
    if found and all(each.order for each in found):
        return f"{table} has no {titles}, so that all rows are read to find the first ones"
    return f"{table} is read as a whole, as it has no {titles}"


def _lacking_beside(found: Sequence[Search], table: str, titles: str) -> str:
    """Return the clause where another index is read, which leaves many rows or entries."""
    worst = max(found, key=lambda each: each.node.time_ms or 0.0)
    if worst.behind:
        return f"{_behind_words(table, worst)}, as it has no {titles}"
    rows = f"{figure(worst.node.removed)} of {figure(worst.node.read)} rows"
    return f"an index scan of {table} discards {rows}, as there is no {titles}"


def _behind_words(table: str, search: Search) -> str:
    """Return a clause on a search by other columns of an index than its first one."""
    return f"{table} is searched in an index that begins with {search.behind}"


def _without_index(s: Situation, tried: list[TimedChange]) -> Found | Cleared:
    """Judge by what was executed where no index that was tried saves enough, or there is none to
    try. Raises Skip where a trial decided nothing, or an index is there."""
    untried = untried_searches(s)
    if untried and untried[0].share >= COST_SHARE:
        if _may_be_there(s, untried[0]):
            table = untried[0].table
            raise Skip(f"many rows of {table} are read to find a few, and no index was tried")
        return _untried(s, untried[0])
    for timed in tried:
        refuse_if_undecided(timed, _title(timed))
    if (unseen := _scanned_unseen(s)) is not None:
        raise Skip(
            f"{unseen.name} is read as a whole, {_rows_words(s, unseen)}, by no plan that was"
            " executed: by a function, a trigger or the check of a foreign key"
        )
    number = s.evidence("searches for few of many rows without an index", len(untried), "count")
    if tried:
        return Cleared("no index that was tried saves time", [number, *_tried(s, tried)])
    return Cleared("no scan looks for a few of many rows without an index", [number])


def _scanned_unseen(s: Situation) -> TableCounts | None:
    """Return the table that the server read as a whole, at some cost by ``ROW_CPU_S``, and no plan
    that was executed; None if there is none."""
    try:
        scanned = scanned_tables(s)
    except Skip:
        return None
    plans = [each.plan for each in planned_statements(s) if each.plan is not None]
    seen = {
        name
        for plan in plans
        for node in plan.nodes()
        for name in (node.relation, plan.wholes.get(node.relation))
        if node.reads_whole_table
    }
    return next(
        (
            table
            for table in scanned
            if table.name not in seen
            and table.scanned_rows * ROW_CPU_S >= COST_SHARE * backend_cores(s)
        ),
        None,
    )


def _may_be_there(s: Situation, costly: CostlySearch) -> bool:
    """Return whether an index of the table has a column of the search: it may be there and not be
    used."""
    names = {folded(name) for name in names_in(costly.condition)}
    read = (costly.table, costly.search.node.relation)
    known = indexes(s)
    return not known or any(names & {*each.columns} for each in known if each.table in read)


def _untried(s: Situation, worst: CostlySearch) -> Found:
    """Name a search for which no index was tried, as its table is large, or none is known."""
    node, condition = worst.search.node, worst.condition
    how = f"{worst.table} is read for {figure(node.rows or 0.0)} of {figure(node.read)} rows"
    if worst.search.behind:
        how = _behind_words(worst.table, worst.search)
    return Found(
        sentence=(
            f"{how}, and no index was tried for"
            f" {shortened(on_one_line(condition))}: {shortened(worst.statement.total.statement)}"
        ),
        parts=work_parts(s),
        share=worst.share,
        removable_share=worst.share,
        confidence=0.6,
        evidence=[
            s.evidence("time of the scan / response time", worst.share, "share",
                       f"at least {percent(COST_SHARE)}"),
            s.evidence("rows read", node.read, "rows"),
            s.evidence("rows found", node.rows, "rows"),
            s.evidence("condition", condition, ""),
        ],
        advice="look for an index, or another way to write the condition, by EXPLAIN on a copy of"
        " the table; patterns that begin with any letter need the extension pg_trgm",
    )  # fmt: skip


def _tried(s: Situation, tried: list[TimedChange]) -> list[Evidence]:
    return [saved_evidence(s, each, _title(each), COST_SHARE) for each in tried]


def _title(timed: TimedChange) -> str:
    table, indexes = _indexes_of(timed)
    return f"an index of {table} {' and '.join(each.sql for each in indexes)}"


def _on_table(s: Situation, table: TableCounts) -> list[StatementTotal]:
    """Return the scripts' statements that mention a table, those that take the most time first."""
    mine = [each for each in s.statements if mentions(each.statement, table.name)]
    return sorted(mine, key=lambda each: -each.spent_ns)


def _columns(s: Situation, table: TableCounts) -> tuple[str, ...]:
    """Return the columns that the slowest statement on ``table`` compares with values; none if its
    text does not show them, or if an index on them is there already."""
    statements = _on_table(s, table)
    found = compared(statements[0].statement) if statements else None
    if found is None or not names_table(found.table, table.name):
        return ()
    unusable = {each.index_name for each in s.run.unusable_indexes(s.slice_ids)}
    schema = table.name.rpartition(".")[0]
    there = [
        set(index.columns)
        for index in indexes(s)
        if index.table == table.name and f"{schema}.{index.name}" not in unusable
    ]
    return () if any(set(found.columns) <= each for each in there) else found.columns


def _index(s: Situation, table: TableCounts, columns: tuple[str, ...]) -> list[Proposal]:
    """Return the proposal of an index.

    What it saves is the CPU time of the statements on the table, by their share of the samples that
    show a session computing, except for ``STATEMENT_CPU_S`` each, the most that a statement takes
    which finds few rows; at least what the rows are estimated to take.
    """
    if not columns:
        return []
    per_s = sum(each.done for each in _on_table(s, table)) / s.seconds
    computing = _computing_share(s, table) - per_s * STATEMENT_CPU_S / backend_cores(s)
    saved = max(cpu_uses(s)["missing-index"], computing)
    ratio = ratio_of_short(s, saved)
    if ratio < WORTHWHILE_RATIO:
        return []
    change = Change(indexes={table.name: columns_text(columns)})
    why = f"the statement would read the rows that it finds instead of {_rows_words(s, table)}"
    return [
        Proposal(
            remedy_id="create-index", change=change, predicted_ratio=ratio, why=why, specific=True
        )
    ]


def _rows_words(s: Situation, table: TableCounts) -> str:
    """Return how many rows a scan of a table reads. In every version, each process of a parallel
    scan counts a scan, and the rows that it read itself (heapam.c)."""
    rows = figure(table.scanned_rows / table.scans)
    waits = s.run.waits(s.slice_ids)
    parallel = any(wait.backend_type == PARALLEL_WORKER and wait.average for wait in waits)
    return f"{rows} rows by each {'process of a parallel scan' if parallel else 'scan'}"


def _computing_share(s: Situation, table: TableCounts) -> float:
    """Return the part of the sessions seen computing whose statement mentions a table."""
    computing = [
        wait
        for wait in s.waits
        if wait.backend_type == CLIENT_BACKEND
        and wait_class(wait.state, wait.wait_event_type, wait.wait_event) == "cpu"
    ]
    mine = sum(each.average for each in computing if mentions(each.statement or "", table.name))
    every = sum(each.average for each in computing)
    return mine / every if every else 0.0


def _statement(s: Situation, table: TableCounts) -> str:
    """Return the statement, shortened, that mentions the table and runs or reads the most."""
    sampled = [wait for wait in s.run.waits(s.slice_ids) if wait.statement and wait.average > 0]
    for wait in sorted(sampled, key=lambda wait: -wait.average):
        if mentions(wait.statement or "", table.name):
            return shortened(wait.statement or "")
    return ""


def _missing_index_evidence(
    s: Situation, scanned: list[TableCounts], share: float
) -> list[Evidence]:
    bar = f"at least {percent(COST_SHARE)}"
    evidence = [s.evidence("sequential scans / response time (estimate)", share, "share", bar)]
    for table in scanned[:3]:
        evidence += [
            s.evidence(f"sequential scans of {table.name}", table.scans, "per s"),
            s.evidence(
                f"rows of {table.name} read by each", table.scanned_rows / table.scans, "rows"
            ),
        ]
    return evidence


@rule(
    "pending-list",
    false_positives="an index that is bloated, which building it again mends as well",
)
def pending_list(s: Situation) -> Found | Cleared:
    """A long list of pending entries of a GIN index: statements that search by it read the whole
    list each time, until a vacuum or an insert empties it.

    On a server that pgdyno started, such an index is built again in a transaction that is rolled
    back, and the load's statements are executed before and after. Trigger: that saves at least
    ``COST_SHARE`` of the response time. Threshold: that of costly-settings.
    """
    tried = trial_against(s, Suspicion.PENDING, "its list of pending entries")
    if tried is None:
        none = s.evidence("indexes with a pending list that plans read", 0, "count")
        return Cleared("no plan reads an index that has a list of pending entries", [none])
    timed, index = tried
    worst, title = timed.statements[0], f"{index.index_name} built again"
    evidence = [
        saved_evidence(s, timed, title, COST_SHARE),
        *time_evidence(s, timed.statements[:1], f"time of it with {title}"),
    ]
    if not is_costly(s, timed):
        refuse_if_undecided(timed, title)
        return Cleared("no search reads a long list of pending entries", evidence)
    return Found(
        sentence=(
            f"a search reads the pending entries of {index.index_name}: it takes"
            f" {figure(worst.ms)} ms, and {figure(worst.changed_ms)} ms after the index was built"
            f" again: {shortened(worst.total.statement)}"
        ),
        confidence=0.8,
        evidence=evidence,
        advice="vacuum the table more often (autovacuum_vacuum_insert_scale_factor), keep the list"
        " short (gin_pending_list_limit), or do without it (fastupdate = off), at the price of"
        " slower inserts",
        commands=[f"SELECT gin_clean_pending_list({literal(relation(index.index_name))})"],
        **weight_of(s, timed),
    )
