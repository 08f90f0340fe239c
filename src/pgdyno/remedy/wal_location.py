"""Remedies that keep the WAL in memory, with or without a standby that receives it.

A data directory without its WAL is not usable: see pg_resetwal in PostgreSQL's documentation; for
standbys see "Log-Shipping Standby Servers" and synchronous_commit.
"""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.remedy._remedy import Case, Remedy, Risk
from pgdyno.remedy.circumstances import Circumstances

_KEYS = ("disk.wal", "standby.count", "standby.mode", "standby.receivewal")
_COMPLETE_STANDBY, _LAGGING_STANDBY, _NO_STANDBY = 1, 2, 3
"""The consequence if a WAL in memory is lost: a standby has all commits, a standby may lack the
last ones, or there is no standby."""


def _severity(server: Circumstances) -> int:
    """Return one of these, or 0 if the WAL is not in memory."""
    if not server.wal_in_memory:
        return 0
    if server.copy == "flushed":
        return _COMPLETE_STANDBY
    return _LAGGING_STANDBY if server.has_standby else _NO_STANDBY


def _becomes(severity: int) -> Callable[[Case], bool]:
    return lambda case: _severity(case.after) == severity > _severity(case.before)


def _behind(case: Case) -> Risk:
    if case.after.copy != "written":
        return Risk("D1", _NOT_RECEIVED)
    return Risk(
        "D1",
        "if the WAL is lost, the standby is promoted: it received every commit, and lacks the last"
        " ones only if its operating system crashed as well",
    )


_NOT_RECEIVED = (
    "if the WAL is lost, the standby is promoted: commits that it had not received are lost,"
    " without limit if it lags; copying its WAL to the primary may corrupt the database"
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
            "a power cut or a crash of the operating system destroys the whole WAL: the server does"
            " not start, and after pg_resetwal -f the database may be corrupt"
        ),
        price="memory of the WAL's size; a full tmpfs stops the server with a PANIC",
        keys=_KEYS,
        when=_becomes(_NO_STANDBY),
        faults=("wal-device",),
        manual_lines=_TO_MEMORY,
    ),
    Remedy(
        id="wal-on-tmpfs-async-standby",
        summary="keep the WAL in memory, with an asynchronous standby",
        kind="layout",
        durability_class="D1",
        bound=_NOT_RECEIVED,
        price="a second server, its network, and a failover whenever the WAL is lost",
        keys=_KEYS,
        when=_becomes(_LAGGING_STANDBY),
        risk=_behind,
        faults=("wal-device",),
        manual_lines=(*_TO_MEMORY, "-- a streaming standby on another machine, its WAL on a disk"),
    ),
    Remedy(
        id="wal-on-tmpfs-sync-standby",
        summary="keep the WAL in memory, with a synchronous standby",
        kind="layout",
        durability_class="D0",
        bound=(
            "nothing is lost if the standby's disk survives the crash: a commit waits until it is"
            " flushed there"
        ),
        price=(
            "each commit waits for the network and the standby's flush; commits stop if the"
            " standby stops; a failover whenever the WAL is lost"
        ),
        keys=_KEYS,
        when=_becomes(_COMPLETE_STANDBY),
        faults=("wal-device",),
        manual_lines=(
            *_TO_MEMORY,
            "-- a streaming standby on another machine, its WAL on a disk",
            "-- synchronous_standby_names = 'ANY 1 (NAME)' and synchronous_commit = on",
        ),
    ),
)
