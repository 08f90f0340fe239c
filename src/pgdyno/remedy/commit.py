"""How a commit reaches the disk: wait for company before the flush, or do not wait for the flush.

Bounds: PostgreSQL's documentation, "Asynchronous Commit" and "WAL configuration"; fsync=off as
"Server configuration, Write Ahead Log" has it. What synchronous_commit is to standbys is in
``replication.py``.
"""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy, Risk
from pgdyno.remedy.circumstances import Circumstances

WAL_WRITER_CYCLES = 3
"""A commit that did not wait is on disk after at most so many rounds of the WAL writer."""
_WAL_WRITER_DELAY_MS = 200.0
"""PostgreSQL's default."""


def lost_ms_max(server: Circumstances) -> float | None:
    """How far back a crash may take commits that did not wait for the disk, in milliseconds;
    ``None``: wal_writer_delay cannot be read."""
    if server.settings.text("wal_writer_delay") is None:
        return WAL_WRITER_CYCLES * _WAL_WRITER_DELAY_MS
    delay_ms = server.settings.duration_ms("wal_writer_delay")
    return None if delay_ms is None else WAL_WRITER_CYCLES * delay_ms


def _does_not_wait(server: Circumstances) -> bool:
    return server.commit_level == "off"


def _loses_more(case: Case) -> bool:
    """Commits do not wait any more, or for what did not wait there is more time to be lost."""
    if case.newly(_does_not_wait):
        return True
    later = (lost_ms_max(case.after) or 0.0) > (lost_ms_max(case.before) or 0.0)
    return later and _does_not_wait(case.after)


def _last_commits(case: Case) -> Risk:
    window_ms = lost_ms_max(case.after)
    size = "" if window_ms is None else f" ({_readable(window_ms)})"
    bound = (
        f"commits acknowledged within the last three times wal_writer_delay{size} may be lost after"
        " a crash; what remains is consistent"
    )
    if case.before.copy != "none":
        bound += "; after a failover those that the standby had not received are lost besides"
    return Risk("D1", bound)


def _sync_method(server: Circumstances) -> str:
    return server.text("wal_sync_method", "the platform's").lower()


def _readable(ms: float) -> str:
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"


def _never_flushed(server: Circumstances) -> bool:
    return not server.is_on("fsync", default=True)


REMEDIES = (
    Remedy(
        id="commit-delay",
        summary="let commits wait briefly so that one flush serves several",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price=(
            "adds up to the delay to a commit's latency whenever at least commit_siblings other"
            " transactions are open; of no use when few sessions commit at once"
        ),
        settings=("commit_delay", "commit_siblings"),
        faults=("power",),
    ),
    Remedy(
        id="synchronous-commit-off",
        summary="answer a commit before its WAL has reached the disk",
        kind="reload",
        durability_class="D1",
        bound=(
            "commits acknowledged within the last three times wal_writer_delay (600 ms by"
            " default) may be lost after a crash; what remains is consistent"
        ),
        price=(
            "may be set for a transaction, a role or a database alone, so that what must not be"
            " lost still waits"
        ),
        settings=("synchronous_commit", "wal_writer_delay"),
        when=_loses_more,
        risk=_last_commits,
        faults=("kill", "power"),
    ),
    Remedy(
        id="wal-writer",
        summary="let the WAL writer write and flush at other times",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost",
        price="commits that wait for their flush gain nothing by it",
        settings=("wal_writer_delay", "wal_writer_flush_after"),
        when=lambda case: not _loses_more(case),
    ),
    Remedy(
        id="fsync-off",
        summary="never make anything reach the disk",
        kind="reload",
        durability_class="D3",
        bound="after a crash of the operating system or a power cut the database may be unusable",
        price="only for data that can be made again from elsewhere",
        settings=("fsync",),
        when=lambda case: case.newly(_never_flushed),
        faults=("power",),
    ),
    Remedy(
        id="wal-sync-method",
        summary="flush the WAL by another system call",
        kind="reload",
        durability_class="unknown",
        bound=(
            "not known: PostgreSQL's documentation has it that a crash-safe configuration may"
            " depend on wal_sync_method, on this platform and storage"
        ),
        price="which one is fastest depends on the platform; pg_test_fsync measures it",
        settings=("wal_sync_method",),
        when=lambda case: _sync_method(case.before) != _sync_method(case.after),
        faults=("power",),
    ),
)
