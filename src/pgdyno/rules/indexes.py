"""Indexes that are missing, and those that nothing needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno.facts.index_use import instead_of
from pgdyno.facts.plans import (
    TimedChange,
    is_analyzed,
    planned_statements,
    timed_indexes,
    was_looked_at,
)
from pgdyno.facts.setting_costs import STATEMENT_CPU_S
from pgdyno.facts.sight import Sight, Unseen, measured, pages_bytes
from pgdyno.facts.situation import Situation
from pgdyno.facts.slices import CLIENT_BACKEND, PARALLEL_WORKER
from pgdyno.facts.tables import Index, TableCounts, compared, indexes, scanned_tables, tables
from pgdyno.numbers import counted, duration, figure, listed, percent, size
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.rules._cpu_uses import (
    ENTRY_CPU_S,
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
    saved_evidence,
    weight_of,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import columns_text, mentions, names_table, quoted, relation, shortened
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
    """Missing index: statements read whole tables to find a few rows.

    On a server that pgdyno started, indexes are tried: of the columns that a scan compares and that
    no index begins with, and of foreign keys whose triggers look for rows of the referencing table.
    Each is made in a transaction, the load's statements are executed before and after, and it is
    rolled back. Trigger: the best of them saves at least ``COST_SHARE`` of the response time. Where
    an index is there and cannot be used, as it is invalid, partial, of another method, on an
    expression, or has the column behind another one, that is the reason given.

    On any other server the trigger is an estimate: sequential scans of at least ``SCAN_ROWS_MIN``
    rows each take at least ``COST_SHARE`` of the response time, by the rows that they read and
    ``ROW_CPU_S`` of CPU time each (see ``facts.tables`` and ``_cpu_uses``). An index is proposed if
    the planner expects a condition to leave few of the rows. Its columns are those that the
    statement with the most time on the table compares with values, where its text shows them.

    Thresholds: no published tool has one that counts the cost; calibrated by injection, a condition
    on a column without an index in tables of 100,000 rows.
    """
    tried = timed_indexes(s)
    if tried and is_costly(s, tried[0]):
        return _timed(s, [each for each in tried if each.is_worthwhile])
    if is_analyzed(s):
        return _without_index(s, tried)
    scanned = scanned_tables(s)
    share = response_share(s, "missing-index")
    evidence = _missing_index_evidence(s, scanned, share)
    if not scanned:
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
        removable_share=ratio_without(s, cpu_uses(s)["missing-index"]).lifted,
        confidence=0.8 if statement else 0.6,
        evidence=[*evidence, *(reason_evidence(s, why) if why is not None else ())],
        proposals=_index(s, worst, columns),
        advice=_advice(s, worst, columns),
        commands=commands_for(why) if why is not None else (),
    )


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
    if not was_looked_at(s) or not table.scans:
        return None
    nodes = [n for each in planned_statements(s) if each.plan for n in each.plan.nodes()]
    scans = [n for n in nodes if n.relation == table.name and n.reads_whole_table]
    if not scans:
        return None
    read = table.scanned_rows / table.scans
    return any(n.rows_planned <= SELECTIVE_SHARE * read for n in scans)


def _timed(s: Situation, tried: list[TimedChange]) -> Found:
    """Name the index that saves most, and propose each that saves enough."""
    best, worst = tried[0], tried[0].statements[0]
    ((table, columns),) = best.change.indexes.items()
    why = instead_of(s, table, columns.split(", ")[0])
    return Found(
        sentence=(
            f"{_lacking(s, table, columns, why)}: a statement takes {figure(worst.ms)} ms, and"
            f" {figure(worst.changed_ms)} ms with it: {shortened(worst.total.statement)}"
        ),
        confidence=0.95,
        evidence=[*_tried(s, tried), *(reason_evidence(s, why) if why is not None else ())],
        proposals=proposals_of(
            s,
            tried,
            "create-index",
            "the statement would read the rows that it finds, not the whole table",
        ),
        advice=f"create an index of {relation(table)} on {columns}",
        commands=commands_for(why) if why is not None else (),
        **weight_of(s, best),
    )


def _lacking(s: Situation, table: str, columns: str, why: UnusableIndex | None) -> str:
    """Return a clause on the index that is missing, with the one that is there and cannot be used,
    or the foreign key that needs it."""
    if why is not None:
        return f"{table} is read as a whole, as {reason_words(why)}"
    plans = [each.plan for each in planned_statements(s) if each.plan is not None]
    triggers = [each for plan in plans for each in plan.triggers if each.constraint]
    is_read = any(n.relation == table and n.reads_whole_table for p in plans for n in p.nodes())
    if triggers and not is_read:
        dearest = max(triggers, key=lambda each: each.time_ms)
        return (
            f"{table} has no index on {columns}, so that the foreign key {dearest.constraint} reads"
            " it as a whole for each row that it refers to"
        )
    return f"{table} is read as a whole, as it has no index on {columns}"


def _without_index(s: Situation, tried: list[TimedChange]) -> Cleared:
    """Clear by what was executed: no index that was tried saves anything, or there is none to
    try."""
    scans = [
        node
        for each in planned_statements(s)
        if each.plan is not None
        for node in each.plan.nodes()
        if node.reads_whole_table
    ]
    found = [s.evidence("scans of whole tables in the plans", len(scans), "count")]
    if tried:
        return Cleared("no index that was tried saves time", [*found, *_tried(s, tried)])
    return Cleared("no scan of a whole table looks for a few rows without an index", found)


def _tried(s: Situation, tried: list[TimedChange]) -> list[Evidence]:
    found = []
    for each in tried:
        ((table, columns),) = each.change.indexes.items()
        title = f"an index of {table} ({columns})"
        found.append(saved_evidence(s, each, title, COST_SHARE))
    return found


def _on_table(s: Situation, table: TableCounts) -> list[StatementTotal]:
    """Return the scripts' statements that mention a table, those that take the most time first."""
    mine = [each for each in s.statements if mentions(each.statement, table.name)]
    return sorted(mine, key=lambda each: -each.service.count * each.service.mean)


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


WRITTEN_PER_S_MIN = 100.0
SHOWN = 5


@rule(
    "unused-indexes",
    false_positives=(
        "statistics that were reset lately; scans on standbys, which only they count; a load that"
        " lacks the queries of the real application"
    ),
)
def unused_indexes(s: Situation) -> Found | Cleared:
    """Indexes that are written and never read.

    Trigger: an index that enforces nothing has not been read since the statistics were reset, and
    its table is written at least ``WRITTEN_PER_S_MIN`` times a second. Nothing is claimed of the
    response time: what an update costs is in the findings on updates that are not HOT.

    Threshold: pg_gather lists any index without a scan; below this rate it costs nothing that a run
    could show.
    """
    known = indexes(s)
    if not known:
        raise Skip("indexes were not recorded")
    entries = {table.name: table.inserted + table.updated - table.hot for table in tables(s)}
    unused = [
        index
        for index in known
        if not index.scans
        and not index.enforces
        and entries.get(index.table, 0) >= WRITTEN_PER_S_MIN
    ]
    evidence = _unused_indexes_evidence(s, known, unused, entries)
    if not unused:
        return Cleared("no index is written and never read", evidence)
    names = listed([index.name for index in unused], SHOWN)
    written = sum(entries[index.table] for index in unused)
    number = counted(len(unused), "index gets", "indexes get")
    return Found(
        sentence=(
            f"{number} {figure(written)} entries per second and no scan has read any: {names}"
        ),
        share=0.0,
        removable_share=0.0,
        confidence=0.5,
        evidence=evidence,
        advice="drop the index if no standby, no rare report and no foreign key needs it",
    )


def _unused_indexes_evidence(
    s: Situation, known: list[Index], unused: list[Index], entries: dict[str, float]
) -> list[Evidence]:
    evidence = [s.evidence("indexes", len(known), "count")]
    for index in unused[:SHOWN]:
        cores = entries[index.table] * ENTRY_CPU_S
        evidence += [
            s.evidence(f"scans of {index.name} since the last reset", index.scans, "count", "none"),
            s.evidence("CPU time for its entries (estimate)", cores, "cores"),
        ]
    return evidence


SIZE_BYTES_MIN = 1 << 20
COUNTED_S_MIN = 7 * 86400.0


@rule(
    "unread-indexes",
    looks=("server", "unused_index"),
    covered_by=("unused-indexes",),
    false_positives=(
        "scans on standbys, which only they count; work of a month's end; an index that serves"
        " the deletes of a foreign key"
    ),
)
def unread_indexes(sight: Sight) -> Found | Cleared:
    """Indexes that nothing reads, and that enforce nothing: they cost space, and an entry for each
    row.

    Trigger: an index of at least ``SIZE_BYTES_MIN`` without a scan since the statistics began, at
    least ``COUNTED_S_MIN`` ago, or, from version 16, for 30 days. Indexes of constraints, replica
    identities and partitioned indexes are left alone. It is minor where the table is not written.

    Thresholds: pg_gather lists any index without a scan. Statistics of a week have seen the work of
    each weekday; a month's end they may have missed. A megabyte is ours: smaller ones are not worth
    the risk. On a standby its own scans are counted alone, so nothing is judged there.
    """
    if sight.is_standby:
        raise Skip("a standby counts its own scans alone")
    rows = [
        row
        for row in sight.rows("unused_index")
        if pages_bytes(sight, row["pages"]) >= SIZE_BYTES_MIN
    ]
    counted_s = sight.row("server")["counters_s"]
    if not rows:
        return Cleared("every index of some size is read or enforces something")
    if counted_s is not None and counted_s < COUNTED_S_MIN:
        raise Unseen(
            "indexes that are not read",
            f"the statistics began {duration(counted_s)} ago",
            f"check again when they are {duration(COUNTED_S_MIN)} old",
        )
    total = sum(pages_bytes(sight, row["pages"]) for row in rows)
    written = any(row["n_written"] for row in rows)
    number = counted(len(rows), "index", "indexes")
    since = f"in {duration(counted_s)}" if counted_s else "since the statistics began"
    names = listed([row["index_name"] for row in rows])
    return Found(
        sentence=f"{number} of {size(total)} had no scan {since}: {names}",
        severity="costs" if written else "minor",
        confidence=0.6 if counted_s else 0.5,
        evidence=[
            measured(
                "statistics began before", counted_s, "s", f"at least {duration(COUNTED_S_MIN)}"
            ),
            *(
                measured(f"size of {row['index_name']}", pages_bytes(sight, row["pages"]), "bytes")
                for row in rows[:SHOWN]
            ),
        ],
        advice="drop it if no standby, no rare report and no foreign key needs it",
        commands=[f"DROP INDEX CONCURRENTLY {row['index_name']}" for row in rows[:SHOWN]],
    )


@rule(
    "duplicate-indexes",
    looks=("server", "duplicate_index"),
    false_positives="an index that replaces another one, which will be dropped next",
)
def duplicate_indexes(sight: Sight) -> Found | Cleared:
    """Two indexes of a table that are the same: the second costs space and an entry for each row.

    Trigger: the same method, columns in their order, operator classes, collations, directions,
    included columns, expressions and predicate; of a unique index and one that is not, the latter
    can go. Of two that enforce something, nothing is said, since a constraint or a foreign key may
    refer to either. It costs something from ``SIZE_BYTES_MIN`` on; smaller ones are minor.
    Threshold of size: ours.
    """
    rows = [row for row in sight.rows("duplicate_index") if not row["enforces"]]
    if not rows:
        return Cleared("no two indexes are the same")
    sizes = [pages_bytes(sight, row["pages"]) for row in rows]
    worst = rows[0]
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    number = counted(len(rows), "index is", "indexes are")
    return Found(
        sentence=(
            f"{number} the same as another, {size(sum(sizes))} in all: {worst['index_name']} and"
            f" {worst['kept']}{more}"
        ),
        severity="costs" if sum(sizes) >= SIZE_BYTES_MIN else "minor",
        confidence=0.95,
        evidence=[
            measured(f"{row['index_name']}, the same as {row['kept']}", bytes_, "bytes")
            for row, bytes_ in zip(rows[:SHOWN], sizes, strict=False)
        ],
        commands=[f"DROP INDEX CONCURRENTLY {row['index_name']}" for row in rows[:SHOWN]],
    )


SIZE_TIMES = 2.0


@rule(
    "prefix-indexes",
    looks=("server", "prefix_index", "duplicate_index"),
    false_positives=(
        "a short index that stays in memory where the long one does not; one that serves"
        " index-only scans or HOT updates of the other columns"
    ),
)
def prefix_indexes(sight: Sight) -> Found | Cleared:
    """Indexes whose columns are the first ones of another index: often one of the two is enough.

    Trigger: a B-tree index of at least 1 MB that enforces nothing, and a longer one of the same
    table that begins with the same columns, operator classes, collations and directions; neither
    partial nor with expressions; and the longer one is less than ``SIZE_TIMES`` as large.
    Thresholds: ours; where the longer index is much larger, the short one is cheaper to scan.
    Duplicates have their own rule. It is minor: the short one may be read for good reason.
    """
    same = {row["index_name"] for row in sight.rows("duplicate_index")}
    rows = [
        row
        for row in sight.rows("prefix_index")
        if row["longer_pages"] < SIZE_TIMES * row["pages"] and row["index_name"] not in same
    ]
    if not rows:
        return Cleared("no index is the beginning of another one of like size")
    total = sum(pages_bytes(sight, row["pages"]) for row in rows)
    worst = rows[0]
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    number = counted(len(rows), "index has", "indexes have")
    return Found(
        sentence=(
            f"{number} the first columns of another one, {size(total)} in all, and may not be"
            f" needed: {worst['index_name']} beside {worst['longer']}{more}"
        ),
        severity="minor",
        confidence=0.4,
        evidence=[
            measured(f"{row['index_name']}, beginning of {row['longer']}",
                     pages_bytes(sight, row["pages"]), "bytes")
            for row in rows[:SHOWN]
        ],
        advice="compare the plans without it (in a transaction that is rolled back) before it goes",
    )  # fmt: skip


@rule(
    "invalid-indexes",
    looks=("server", "invalid_index"),
    false_positives="a command that waits at this moment, between two of its locks",
)
def invalid_indexes(sight: Sight) -> Found | Cleared:
    """Invalid indexes, left behind by CREATE INDEX CONCURRENTLY or REINDEX that did not finish.

    Trigger: pg_index.indisvalid is false, of an index that is not being built: no session holds the
    lock of such a command on its table. Threshold: none. No query reads it; where it is ready, each
    write still makes an entry.
    """
    rows = sight.rows("invalid_index")
    if not rows:
        return Cleared("all indexes are valid")
    number = counted(len(rows), "index is", "indexes are")
    written = sum(row["written"] for row in rows)
    also = f", and {counted(written, 'of them is', 'of them are')} written" if written else ""
    return Found(
        sentence=(
            f"{number} invalid and never read{also}: {listed([row['index_name'] for row in rows])}"
        ),
        severity="costs",
        confidence=0.9,
        evidence=[
            measured(f"size of {row['index_name']}", pages_bytes(sight, row["pages"]), "bytes")
            for row in rows[:SHOWN]
        ],
        advice="drop it, or build it again; the leftover of a REINDEX ends with _ccnew or _ccold",
        commands=[
            f"REINDEX INDEX CONCURRENTLY {row['index_name']}"
            if "_ccnew" not in row["index_name"] and "_ccold" not in row["index_name"]
            else f"DROP INDEX CONCURRENTLY {row['index_name']}"
            for row in rows[:SHOWN]
        ],
    )
