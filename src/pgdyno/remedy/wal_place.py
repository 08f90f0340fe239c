"""Where the WAL lives: in memory, alone or with a standby that has it too.

A data directory without its WAL is no database: see PostgreSQL's documentation of pg_resetwal. What
a standby makes of it is in "Log-Shipping Standby Servers" and in that of synchronous_commit.
"""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.remedy._remedy import Case, Remedy, Risk
from pgdyno.remedy.circumstances import Circumstances

_KEYS = ("disk.wal", "standby.count", "standby.mode", "standby.receivewal")
_SAFE, _BEHIND, _ALONE = 1, 2, 3
"""What is left when a WAL in memory is gone: a standby that has all, one that may lack the last, or
nothing."""


def _left(server: Circumstances) -> int:
    """One of these, or 0: the WAL is not in memory."""
    if not server.wal_in_memory:
        return 0
    if server.copy == "flushed":
        return _SAFE
    return _BEHIND if server.has_standby else _ALONE


def _newly(left: int) -> Callable[[Case], bool]:
    return lambda case: _left(case.after) == left > _left(case.before)


def _behind(case: Case) -> Risk:
    if case.after.copy != "written":
        return Risk("D1", _NOT_RECEIVED)
    return Risk(
        "D1",
        "with the WAL gone the standby is promoted: it was given every commit, and lacks the last"
        " only where its operating system crashed too",
    )


_NOT_RECEIVED = (
    "with the WAL gone the standby is promoted: the commits that it had not received are lost,"
    " without limit when it lags; its WAL copied into the primary corrupts"
)

_TO_MEMORY = (
    "-- stop PostgreSQL, mount a tmpfs that holds twice max_wal_size, move pg_wal there",
    "-- ln -s THERE/pg_wal DATA/pg_wal; start PostgreSQL",
)

REMEDIES = (
    Remedy(
        id="wal-on-tmpfs",
        summary="keep the WAL in memory",
        kind="layout",
        durability_class="D3",
        bound=(
            "a power cut, or a crash of the operating system, takes the whole WAL: the server does"
            " not start, and what pg_resetwal -f starts may be corrupt"
        ),
        price="the WAL's size in memory; a tmpfs that is full stops the server with a PANIC",
        keys=_KEYS,
        when=_newly(_ALONE),
        faults=("wal-device",),
        steps=_TO_MEMORY,
    ),
    Remedy(
        id="wal-on-tmpfs-async-standby",
        summary="keep the WAL in memory, and an asynchronous standby",
        kind="layout",
        durability_class="D1",
        bound=_NOT_RECEIVED,
        price="a second server, its network, and a failover whenever the WAL is lost",
        keys=_KEYS,
        when=_newly(_BEHIND),
        risk=_behind,
        faults=("wal-device",),
        steps=(*_TO_MEMORY, "-- a streaming standby on another machine, its WAL on a disk"),
    ),
    Remedy(
        id="wal-on-tmpfs-sync-standby",
        summary="keep the WAL in memory, and a synchronous standby",
        kind="layout",
        durability_class="D0",
        bound=(
            "nothing is lost while the standby's disk outlives the crash: a commit waits until it"
            " is flushed there"
        ),
        price=(
            "each commit waits for the network and the standby's flush; commits stop when the"
            " standby does; a failover whenever the WAL is lost"
        ),
        keys=_KEYS,
        when=_newly(_SAFE),
        faults=("wal-device",),
        steps=(
            *_TO_MEMORY,
            "-- a streaming standby on another machine, its WAL on a disk",
            "-- synchronous_standby_names = 'ANY 1 (NAME)' and synchronous_commit = on",
        ),
    ),
)
