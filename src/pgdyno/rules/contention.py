"""Contention for the locks that protect structures in shared memory, and for pages."""

from __future__ import annotations

import re

from pgdyno.facts.situation import Situation
from pgdyno.rules._contention import contention
from pgdyno.rules.commits import larger_wal_buffers
from pgdyno.rules.rule import Cleared, Found, rule

LOCK_MANAGER_SIZABLE_FROM = 180000
"""First server_version_num whose fast path grows with max_locks_per_transaction."""


@rule(
    "lock-manager",
    false_positives="many sessions that queue for the same lock, which pass through one part",
)
def lock_manager(s: Situation) -> Found | Cleared:
    """Lock manager: sessions wait for the table of locks itself, not for a lock.

    A session notes its first relation locks where nobody else looks (fast path): 16 of them before
    version 18, as many as max_locks_per_transaction since. Statements that touch more relations,
    such as those on many partitions with their indexes, take the others in the shared table, which
    is divided into 16 parts.

    Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait
    for LWLock:LockManager or LWLock:LockFastPath, see ``_contention``.
    """
    larger = "; raise max_locks_per_transaction above the number of relations that one touches"
    return contention(
        s,
        "lock manager",
        "the table of locks",
        advice=(
            "let statements touch fewer relations: name the partition key, so that the others are"
            " left out when it is planned; prepare statements; have fewer partitions and indexes"
            f"{larger if s.server_version_num >= LOCK_MANAGER_SIZABLE_FROM else ''}"
        ),
    )


@rule(
    "buffer-mapping",
    false_positives="a few large scans that replace all buffers for a moment",
)
def buffer_mapping(s: Situation) -> Found | Cleared:
    """Buffer mapping: sessions wait for the table that says which page is in which buffer.

    A page that is read takes a buffer from another, which changes two of the table's 128 parts. So
    it is contended where pages are replaced much: the data is larger than shared_buffers, though
    the kernel's cache may have it.

    Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait
    for LWLock:BufferMapping, see ``_contention``.
    """
    database = {
        name: s.run.delta("metric_database", name, s.slice_ids)
        for name in ("blks_read", "blks_hit")
    }
    read, hit = database["blks_read"], database["blks_hit"]
    evidence = []
    if read is not None:
        evidence.append(s.evidence("pages read into buffers", read / s.seconds, "1/s"))
    if read is not None and hit is not None and read + hit > 0:
        evidence.append(s.evidence("of all pages used", read / (read + hit), "share"))
    return contention(
        s,
        "buffer mapping",
        "the table of buffers",
        evidence=evidence,
        advice="keep the working set in shared_buffers, or let fewer sessions read at once",
    )


@rule(
    "wal-insertion",
    false_positives="a commit flush that is slow, behind which the buffers fill up",
)
def wal_insertion(s: Situation) -> Found | Cleared:
    """WAL insertion: sessions wait to copy their records into the WAL buffers.

    Eight locks, fixed when PostgreSQL is built, guard the copying (LWLock:WALInsert). Where the
    buffers are full, sessions also wait for old pages to be written (LWLock:WALBufMapping); only
    that changes with wal_buffers.

    Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait
    for these locks, see ``_contention``.
    """
    wal = s.wal_if_recorded
    evidence = []
    if wal is not None:
        evidence.append(s.evidence("WAL written", wal.bytes / s.seconds, "bytes/s"))
        if wal.buffers_full is not None:
            name = "times that WAL buffers were full"
            evidence.append(s.evidence(name, wal.buffers_full, "count"))
    return contention(
        s,
        "wal insert",
        "room in the WAL buffers or the locks on them",
        evidence=evidence,
        proposals=larger_wal_buffers(s),
        advice=(
            "write less WAL: fewer indexes, fewer and larger transactions, COPY instead of single"
            " inserts; or use fewer sessions"
        ),
    )


SUBTRANSACTIONS_SIZABLE_FROM = 170000
"""First server_version_num with subtransaction_buffers."""


@rule(
    "subtransactions",
    false_positives="a standby, whose snapshots have to look up more of the subtransactions",
)
def subtransactions(s: Situation) -> Found | Cleared:
    """Subtransactions: sessions look up the parents of subtransactions in a small cache.

    A transaction with more than 64 subtransactions that have written (savepoints, blocks with
    EXCEPTION in PL/pgSQL) no longer fits in a snapshot. All others that see its rows must then look
    up each of its subtransactions in pg_subtrans, whose cache has 32 pages before version 17.

    Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait
    for LWLock:SubtransBuffer or LWLock:SubtransSLRU, see ``_contention``.
    """
    sizable = s.server_version_num >= SUBTRANSACTIONS_SIZABLE_FROM
    larger = "; a larger subtransaction_buffers keeps more of them in memory"
    return contention(
        s,
        "subtransactions",
        "the parents of subtransactions",
        advice=(
            "use at most 64 savepoints or EXCEPTION blocks in a transaction, and no long"
            f" transactions beside them{larger if sizable else ''}"
        ),
    )


MULTIXACT_SIZABLE_FROM = 170000
"""First server_version_num with multixact_offset_buffers and multixact_member_buffers."""


@rule(
    "multixact",
    false_positives="statements that lock rows FOR SHARE themselves, without foreign keys",
)
def multixact(s: Situation) -> Found | Cleared:
    """Multixacts: rows that several transactions have locked at once, as foreign keys lock them.

    Such a row points to a list of its lockers. The lists are in pg_multixact, whose caches are
    small before version 17: 8 pages of offsets and 16 of members.

    Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait
    for these caches or their locks (LWLock:MultiXact…), see ``_contention``.
    """
    larger = "; larger multixact_offset_buffers and multixact_member_buffers keep more in memory"
    return contention(
        s,
        "multixact",
        "the lists of those who share a row",
        advice=(
            "let fewer transactions refer to the same row at once: spread it, drop the foreign key,"
            f" or commit sooner{larger if s.server_version_num >= MULTIXACT_SIZABLE_FROM else ''}"
        ),
    )


_INSERT = re.compile(r"\s*(?:with\b.*)?insert\s+into\s+(?P<table>[\w.\"]+)", re.IGNORECASE)
_SEQUENCE = re.compile(r"\bnextval\b", re.IGNORECASE)


@rule(
    "page-contention",
    false_positives=(
        "sessions that wait for a page while another session, which holds it, waits for a core or"
        " for the disk"
    ),
)
def page_contention(s: Situation) -> Found | Cleared:
    """Contention for a page: sessions wait for access to one page in shared buffers.

    Sessions that insert ascending keys all write to the last leaf page of the index, and the page
    of the sequence that gives the keys; sessions that update the same few small tables meet in
    their pages.

    Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait
    for a page or its pin (LWLock:BufferContent and BufferPin, from version 19 on the type Buffer),
    see ``_contention``. Which page it is, no view tells; the statements that wait name the table.
    """
    statement = next(iter(s.statements_waiting("page")), "")
    what, advice = _page(statement)
    return contention(s, "page", what, advice=advice)


def _page(statement: str) -> tuple[str, str]:
    """Return the page that the statement waits for, in words, and advice."""
    insert = _INSERT.match(statement)
    if insert:
        return (
            f"a page that all inserts into {insert['table']} write: the last of an index with"
            " ascending keys, or that of a row which they refer to",
            "use keys that do not ascend (a random UUID, a hash of the number first), partition the"
            " index by hash, give each session a range of the sequence (CACHE), or use fewer"
            " sessions; no setting changes it",
        )
    if _SEQUENCE.search(statement):
        return (
            "the page of a sequence",
            "give each session a range of the sequence (ALTER SEQUENCE … CACHE); no setting"
            " changes it",
        )
    return (
        "a page that others use",
        "spread the rows that are changed most over more pages (a lower fillfactor, partitions), or"
        " use fewer sessions; no setting changes it",
    )


@rule(
    "relation-extension",
    false_positives="a disk that is slow to allocate space for growing files",
)
def relation_extension(s: Situation) -> Found | Cleared:
    """Relation extension: sessions queue to add pages to the same table or index.

    One session at a time extends a relation. From version 16 it adds several pages at once when
    others wait, and the wait is rarer.

    Trigger and threshold: at least ``CONTENDED_SHARE`` of the client sessions in a transaction wait
    for Lock:extend or IO:DataFileExtend, see ``_contention``.
    """
    return contention(
        s,
        "extend",
        "new pages of a table or index",
        advice=(
            "insert into several partitions, so that each is extended by itself, or use fewer and"
            " larger batches; before version 16 each session also extends by one page at a time"
        ),
    )
