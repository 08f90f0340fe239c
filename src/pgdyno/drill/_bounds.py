"""The documented bounds of loss in a crash, under the active settings.

Each fault names its own bound; the bounds that several share are here. Sources, all in PostgreSQL's
documentation: "Asynchronous Commit" (three times wal_writer_delay; an immediate shutdown is a
crash), "Write Ahead Log" in "Server Configuration" (fsync, full_page_writes, synchronous_commit,
wal_writer_flush_after), "Log-Shipping Standby Servers" (synchronous replication), "Reliability".
"""

from __future__ import annotations

from msgspec import Struct

from pgdyno.remedy import Circumstances
from pgdyno.remedy.commit import lost_ms_max
from pgdyno.spec.units import format_duration

SETTINGS = (
    "synchronous_commit",
    "wal_writer_delay",
    "wal_writer_flush_after",
    "fsync",
    "full_page_writes",
    "data_checksums",
    "commit_delay",
    "synchronous_standby_names",
    "wal_sync_method",
)
"""Settings on which the possible loss in a crash depends."""

_UNLOGGED = "a crash leaves unlogged tables empty"


class Bound(Struct, frozen=True):
    """The period before the fault whose acknowledged commits may be lost."""

    ms: float | None
    """Milliseconds before the fault; 0: none may be lost; ``None``: there is no bound."""
    words: str


def of_a_crash(server: Circumstances) -> Bound:
    """Return the bound for a server that recovers from its own WAL: only what had not reached the
    WAL on disk is lost."""
    if server.unlogged:
        return Bound(None, _UNLOGGED)
    if server.commit_level != "off" and not server.scripts_choose:
        return Bound(0.0, "a commit is acknowledged once its WAL is on disk: none may be lost")
    bound_ms = lost_ms_max(server)
    if bound_ms is None:
        return Bound(None, "wal_writer_delay cannot be read, so no bound is known")
    flush_after = server.text("wal_writer_flush_after", "1MB")
    sooner = f"less if {flush_after} of WAL is written sooner"
    if flush_after == "0":
        sooner = "less under load, because wal_writer_flush_after = 0 flushes with every write"
    script = "a script sets synchronous_commit itself; " if server.scripts_choose else ""
    return Bound(
        float(bound_ms),
        f"{script}with synchronous_commit = off the commits of the last"
        f" {format_duration(bound_ms)} may be lost, three times wal_writer_delay; {sooner}",
    )


def of_a_lost_wal(server: Circumstances) -> Bound:
    """Return the bound for a server whose WAL is lost: only what a standby has is left."""
    if server.unlogged:
        return Bound(None, _UNLOGGED)
    if not server.synchronous_standbys:
        return Bound(
            None,
            "without the WAL there is no bound: without a standby the database is what pg_resetwal"
            " makes of it, with an asynchronous one everything that it had not received is lost",
        )
    return _of_synchronous_standbys(server)


def of_a_failover(server: Circumstances) -> Bound:
    """Return the bound for a standby that takes over: what it had not received is lost."""
    if server.unlogged:
        return Bound(None, "unlogged tables are empty on a standby")
    if not server.synchronous_standbys:
        return Bound(
            None,
            "commits do not wait for the standby, so everything that it had not received is lost:"
            " there is no bound",
        )
    return _of_synchronous_standbys(server)


def of_a_switchover(server: Circumstances) -> Bound:
    """Return the bound for a primary that is shut down first: it sends all WAL before it ends."""
    if server.unlogged:
        return Bound(None, "unlogged tables are empty on a standby")
    return Bound(0.0, "a server that is shut down sends all of its WAL to its standbys first")


def _of_synchronous_standbys(server: Circumstances) -> Bound:
    if server.scripts_choose:
        return Bound(
            None,
            "a script sets synchronous_commit itself, so a commit need not wait for the standby:"
            " there is no bound",
        )
    if server.copy == "flushed":
        return Bound(0.0, "a commit is acknowledged once a standby has it on disk")
    if server.copy == "written":
        return Bound(
            0.0,
            "a commit is acknowledged once a standby's operating system has it: it is lost only if"
            " that fails as well",
        )
    return Bound(
        None,
        f"with synchronous_commit = {server.commit_level} no commit waits for the standby: there is"
        " no bound",
    )
