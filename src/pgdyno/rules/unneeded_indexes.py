"""Indexes that nothing needs: that no scan reads, that are there twice, or invalid."""

from __future__ import annotations

from pgdyno.facts.plans import TimedChange
from pgdyno.facts.sight import Sight, Unseen, measured, pages_bytes
from pgdyno.facts.situation import Situation
from pgdyno.facts.suspects import timed_suspects
from pgdyno.facts.tables import Index, indexes, tables
from pgdyno.numbers import counted, duration, figure, listed, size
from pgdyno.record import Suspect, Suspicion
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._cpu_uses import ENTRY_CPU_S
from pgdyno.rules._timed_changes import (
    COST_SHARE,
    is_costly,
    saved_evidence,
    time_evidence,
    weight_of,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.sql_text import relation, shortened

WRITTEN_PER_S_MIN = 100.0
SHOWN = 5
_ADVICE = "drop the index if no standby, no rare report and no foreign key needs it"


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
    its table is written at least ``WRITTEN_PER_S_MIN`` times a second. On a server that pgdyno
    started, the load's statements are executed before and after such indexes of a table are
    dropped, in a transaction that is rolled back; what that saves, if it is ``COST_SHARE`` of the
    response time or more, is the weight of the finding. Else nothing is claimed of the response
    time: what an update costs is in the findings on updates that are not HOT.

    Thresholds: pg_gather lists any index without a scan; below this rate it costs nothing that a
    run could show. That of a trial is the one of costly-settings.
    """
    dropped = timed_suspects(s, Suspicion.UNREAD)
    if dropped and is_costly(s, dropped[0][0]):
        return _timed(s, *dropped[0])
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
        advice=_ADVICE,
    )


def _timed(s: Situation, timed: TimedChange, unread: list[Suspect]) -> Found:
    """Name the indexes of the table that costs most."""
    names, worst = [each.index_name for each in unread], timed.statements[0]
    number = counted(len(names), "index", "indexes")
    return Found(
        sentence=(
            f"no scan has read {number} that a statement writes; it takes {figure(worst.ms)} ms,"
            f" and {figure(worst.changed_ms)} ms without: {listed(names, SHOWN)};"
            f" {shortened(worst.total.statement)}"
        ),
        confidence=0.8,
        evidence=[
            saved_evidence(s, timed, f"without {listed(names, SHOWN)}", COST_SHARE),
            *time_evidence(s, timed.statements[:1], "time of it without them"),
        ],
        advice=_ADVICE,
        commands=[f"DROP INDEX CONCURRENTLY {relation(name)}" for name in names],
        **weight_of(s, timed),
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
