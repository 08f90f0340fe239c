"""What PostgreSQL's documentation allows a fault to take away, under given settings.

Sources, all of PostgreSQL's documentation: "Asynchronous Commit" (three times wal_writer_delay; an
immediate shutdown counts as a crash), "Write Ahead Log" in "Server Configuration" (fsync,
full_page_writes, synchronous_commit, wal_writer_flush_after), "Log-Shipping Standby Servers"
(synchronous replication), "Reliability".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.spec.units import format_duration, parse_duration_ms

CRASH = "kill"
POWER = "power"
WAL_DEVICE = "wal-device"
STOP = "stop"
WAL_WRITER_CYCLES = 3
"""A commit that did not wait is on disk after at most so many rounds of the WAL writer."""

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
"""Settings that decide what a crash may take away."""


@dataclass(frozen=True)
class Bound:
    """How far back acknowledged commits may be lost."""

    ms: float | None
    """Milliseconds before the fault; 0: none may be lost; ``None``: there is no bound."""
    words: str


def documented_bound(
    fault: str,
    settings: Mapping[str, str],
    *,
    wal_volatile: bool = False,
    unlogged: bool = False,
    scripts_choose: bool = False,
) -> Bound:
    """The bound for ``fault`` with ``settings`` in force, as SHOW gives them.

    ``wal_volatile``: the WAL lies in memory. ``unlogged``: the load's tables have no WAL.
    ``scripts_choose``: the load's scripts set synchronous_commit themselves.
    """
    if fault == STOP:
        return Bound(0.0, "a server that stands still and goes on loses nothing")
    if unlogged:
        return Bound(None, "a crash leaves unlogged tables empty")
    if fault == WAL_DEVICE or (fault == POWER and wal_volatile):
        return _without_the_wal(settings, scripts_choose=scripts_choose)
    if fault == POWER:
        if settings.get("fsync") == "off":
            return Bound(None, "with fsync = off a power cut may damage everything")
        if settings.get("full_page_writes") == "off":
            return Bound(
                None,
                "with full_page_writes = off a power cut may tear pages: the database may be"
                " unusable, or damaged without a word",
            )
    return _of_a_crash(settings, scripts_choose=scripts_choose)


def _of_a_crash(settings: Mapping[str, str], *, scripts_choose: bool) -> Bound:
    """The server recovers from its own WAL: only what had not reached it is lost."""
    if settings.get("synchronous_commit") != "off" and not scripts_choose:
        return Bound(0.0, "a commit is acknowledged once its WAL is on disk: none may be lost")
    delay_ms = parse_duration_ms(settings.get("wal_writer_delay", "200ms"))
    bound_ms = WAL_WRITER_CYCLES * delay_ms
    flush_after = settings.get("wal_writer_flush_after", "1MB")
    sooner = f"sooner where {flush_after} of WAL come first"
    if flush_after == "0":
        sooner = "sooner under load, for wal_writer_flush_after = 0 flushes with every write"
    who = "a script sets synchronous_commit for itself; " if scripts_choose else ""
    return Bound(
        float(bound_ms),
        f"{who}with synchronous_commit = off the commits of the last"
        f" {format_duration(bound_ms)} may be lost, three times wal_writer_delay; {sooner}",
    )


def _without_the_wal(settings: Mapping[str, str], *, scripts_choose: bool) -> Bound:
    """All that is left is what a standby has."""
    level = settings.get("synchronous_commit", "on")
    if not settings.get("synchronous_standby_names"):
        return Bound(
            None,
            "with the WAL gone there is no bound: without a standby the database is only as good as"
            " pg_resetwal makes it, with an asynchronous one all that it had not received is lost",
        )
    if scripts_choose:
        return Bound(
            None,
            "a script sets synchronous_commit for itself, so that a commit need not wait for the"
            " standby: there is no bound",
        )
    if level in ("on", "remote_apply"):
        return Bound(0.0, "a commit is acknowledged once a standby has it on disk")
    if level == "remote_write":
        return Bound(
            0.0,
            "a commit is acknowledged once a standby's operating system has it: lost only if that"
            " fails as well",
        )
    return Bound(
        None,
        f"with synchronous_commit = {level} no commit waits for the standby: there is no bound",
    )
