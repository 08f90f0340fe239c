"""Remedies for the commit flush: wait for other commits before it, or do not wait for it.

Bounds: PostgreSQL's documentation, "Asynchronous Commit" and "WAL Configuration"; for fsync = off,
"Server Configuration, Write Ahead Log". For synchronous_commit and standbys see ``replication.py``.
"""

from __future__ import annotations

from pgdyno.numbers import duration
from pgdyno.remedy._remedy import Case, Remedy, Risk
from pgdyno.remedy.circumstances import Circumstances

WAL_WRITER_CYCLES = 3
"""An asynchronous commit is flushed after at most this many times wal_writer_delay."""
_WAL_WRITER_DELAY_MS = 200.0
"""PostgreSQL's default."""
WAL_WRITER_ROUNDS = 5
"""Rounds of the WAL writer that a slice spans at least, so that its flushes are spread as they are
in the long run. Calibrated: with wal_writer_delay = 2s, slices of one round differ by what happens
to be flushed in them."""

_UNKNOWN_METHOD = (
    "not known: according to PostgreSQL's documentation, whether a configuration is crash-safe may"
    " depend on wal_sync_method"
)
_ASKS_THE_SAME = ("fsync", "open_sync", "open_datasync")


def lost_ms_max(server: Circumstances) -> float | None:
    """Return the longest time before a crash in which asynchronous commits may be lost, in
    milliseconds; ``None`` if wal_writer_delay cannot be parsed."""
    if server.settings.text("wal_writer_delay") is None:
        return WAL_WRITER_CYCLES * _WAL_WRITER_DELAY_MS
    delay_ms = server.settings.duration_ms("wal_writer_delay")
    return None if delay_ms is None else WAL_WRITER_CYCLES * delay_ms


def _delays_longer(case: Case) -> bool:
    """True if commits are delayed longer, or the delay begins to act with fewer of them."""
    before, after = (side.settings for side in (case.before, case.after))
    longer = (after.duration_ms("commit_delay") or 0.0) > (
        before.duration_ms("commit_delay") or 0.0
    )
    siblings = [
        5.0 if (n := side.number("commit_siblings")) is None else n for side in (before, after)
    ]
    return longer or siblings[1] < siblings[0]


def _several_rounds_s(case: Case) -> float:
    """Return the time of several rounds of the WAL writer, in seconds, at the slower delay."""
    delays = (lost_ms_max(side) or 0.0 for side in (case.before, case.after))
    return WAL_WRITER_ROUNDS * max(delays) / WAL_WRITER_CYCLES / 1000


def _does_not_wait(server: Circumstances) -> bool:
    return server.commit_level == "off"


def _loses_more(case: Case) -> bool:
    """True if commits become asynchronous, or asynchronous commits are flushed later."""
    if case.becomes(_does_not_wait):
        return True
    later = (lost_ms_max(case.after) or 0.0) > (lost_ms_max(case.before) or 0.0)
    return later and _does_not_wait(case.after)


def _last_commits(case: Case) -> Risk:
    window_ms = lost_ms_max(case.after)
    size = "" if window_ms is None else f" ({duration(window_ms / 1000)})"
    bound = (
        f"commits acknowledged within the last three times wal_writer_delay{size} may be lost in a"
        " crash; the database remains consistent"
    )
    if case.before.copy != "none":
        bound += "; after a failover, commits that the standby had not received are lost as well"
    return Risk("D1", bound)


def _sync_method(server: Circumstances) -> str:
    return server.text("wal_sync_method", "the platform's").lower()


def _of_sync_method(case: Case) -> Risk:
    """Return the loss that another method may cause: none where fdatasync, the default of Linux and
    FreeBSD, replaces one that asks the same of the device; fsync_writethrough asks for more.
    fdatasync flushes all that is needed to read the data again (POSIX)."""
    safe = _sync_method(case.before) in _ASKS_THE_SAME and _sync_method(case.after) == "fdatasync"
    if safe:
        return Risk("D0")
    return Risk("unknown", _UNKNOWN_METHOD)


def _never_flushed(server: Circumstances) -> bool:
    return not server.is_on("fsync", default=True)


REMEDIES = (
    Remedy(
        id="commit-delay",
        summary="delay commits briefly so that one flush serves several",
        kind="reload",
        durability_class="D0",
        price=(
            "adds up to commit_delay to a commit's latency if at least commit_siblings other"
            " transactions are active; no gain if few sessions commit at the same time"
        ),
        settings=("commit_delay", "commit_siblings"),
        when=_delays_longer,
        faults=("power",),
    ),
    Remedy(
        id="synchronous-commit-off",
        summary="acknowledge a commit before its WAL is flushed to disk",
        kind="reload",
        durability_class="D1",
        bound=(
            "commits acknowledged within the last three times wal_writer_delay (600 ms by"
            " default) may be lost in a crash; the database remains consistent"
        ),
        price=(
            "nothing else; it can be limited to a transaction, a role or a database, so"
            " that commits that must not be lost still wait"
        ),
        settings=("synchronous_commit", "wal_writer_delay"),
        when=_loses_more,
        risk=_last_commits,
        faults=("kill", "power"),
        postpones=("WAL flush",),
        effect_after=_several_rounds_s,
    ),
    Remedy(
        id="wal-writer",
        summary="change when the WAL writer writes and flushes",
        kind="reload",
        durability_class="D0",
        price="no gain for commits that wait for their flush",
        settings=("wal_writer_delay", "wal_writer_flush_after"),
        when=lambda case: not _loses_more(case),
        postpones=("WAL flush",),
        effect_after=_several_rounds_s,
    ),
    Remedy(
        id="fsync-off",
        summary="do not flush any write to disk",
        kind="reload",
        durability_class="D3",
        bound="after a crash of the operating system or a power cut the database may be unusable",
        price="only for databases that can be recreated from external data",
        settings=("fsync",),
        when=lambda case: case.becomes(_never_flushed),
        faults=("power",),
    ),
    Remedy(
        id="wal-sync-method",
        summary="flush the WAL with another system call",
        kind="reload",
        durability_class="unknown",
        bound=_UNKNOWN_METHOD,
        price="the fastest method depends on the platform; pg_test_fsync measures them",
        settings=("wal_sync_method",),
        when=lambda case: _sync_method(case.before) != _sync_method(case.after),
        risk=_of_sync_method,
        faults=("power",),
    ),
)
