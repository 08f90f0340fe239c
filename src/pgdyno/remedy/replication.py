"""Remedies that change whether commits wait for a standby, and for which confirmation.

Sources, PostgreSQL's documentation: synchronous_commit ("local", "remote_write"; without
synchronous_standby_names only on and off differ) and "Log-Shipping Standby Servers" (asynchronous
replication loses what was not replicated, in proportion to its delay at the failover).
"""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy, Risk
from pgdyno.remedy.circumstances import Circumstances

_COPIES = ("none", "written", "flushed")
_FAILOVER = (
    "at a failover the commits that the standby had not received are lost, in proportion to the"
    " replication delay; nothing is lost if the server itself recovers"
)


def _weaker(case: Case) -> bool:
    """True if a standby is guaranteed to have less of a commit than before."""
    return _COPIES.index(case.after.copy) < _COPIES.index(case.before.copy)


def _flushed_locally_only(case: Case) -> bool:
    return _weaker(case) and case.after.commit_level == "local"


def _written_only(case: Case) -> bool:
    return _weaker(case) and case.after.copy == "written"


def _not_replayed(case: Case) -> bool:
    levels = case.before.commit_level, case.after.commit_level
    return case.before.copy != "none" and levels == ("remote_apply", "on")


def _any_of(case: Case) -> bool:
    before, after = (_takes_any(side) for side in (case.before, case.after))
    return after and not before and not _fewer(case)


def _takes_any(server: Circumstances) -> bool:
    return server.text("synchronous_standby_names", "").strip().lower().startswith("any")


def _standby_gone(case: Case) -> bool:
    return case.before.standby.receivers > 0 and case.after.standby.receivers == 0


def _fewer(case: Case) -> bool:
    waited, waits = case.before.synchronous_standbys, case.after.synchronous_standbys
    return _standby_gone(case) or (case.before.copy != "none" and waits < waited)


def _without(case: Case) -> Risk:
    if _standby_gone(case):
        return Risk(
            "D0",
            "nothing is lost in a crash; there is no standby to fail over to when the server's"
            " storage is lost",
        )
    if case.after.synchronous_standbys:
        return Risk(
            "D1",
            "at a failover the commits that only lost standbys had received are lost; nothing is"
            " lost if the server itself recovers",
        )
    return Risk("D1", _FAILOVER)


REMEDIES = (
    Remedy(
        id="synchronous-commit-local",
        summary="acknowledge a commit after the local flush, without waiting for a standby",
        kind="reload",
        durability_class="D1",
        bound=_FAILOVER,
        price="a failover loses the commits that the standby has not received",
        settings=("synchronous_commit",),
        keys=("standby.mode",),
        when=_flushed_locally_only,
        faults=("wal-device",),
    ),
    Remedy(
        id="synchronous-commit-remote-write",
        summary="acknowledge a commit when a standby has written it, before it is flushed there",
        kind="reload",
        durability_class="D1",
        bound=(
            "when the standby's operating system crashes and the primary is lost as well, commits"
            " not flushed on the standby are lost; nothing is lost if only its PostgreSQL crashes"
        ),
        price="a commit still waits for the network",
        settings=("synchronous_commit",),
        keys=("standby.mode",),
        when=_written_only,
        faults=("wal-device",),
    ),
    Remedy(
        id="synchronous-commit-on",
        summary="acknowledge a commit when a standby has flushed it, before it is visible there",
        kind="reload",
        durability_class="D0",
        price="queries on the standby may not see a commit that was already acknowledged",
        settings=("synchronous_commit",),
        keys=("standby.mode",),
        when=_not_replayed,
        faults=("wal-device",),
    ),
    Remedy(
        id="synchronous-standbys-any",
        summary="wait for the standbys that answer first, instead of those listed first",
        kind="reload",
        durability_class="D0",
        bound="nothing is lost if the standby that has received most takes over at a failover",
        price="which standby has the last commits is known only when they are compared",
        settings=("synchronous_standby_names",),
        when=_any_of,
        faults=("wal-device",),
    ),
    Remedy(
        id="synchronous-standbys-fewer",
        summary="wait for fewer standbys, or for no standby",
        kind="reload",
        durability_class="D1",
        bound=_FAILOVER,
        price="fewer copies of the last commits if the server is lost",
        settings=("synchronous_standby_names",),
        keys=("standby.count", "standby.mode", "standby.quorum", "standby.receivewal",
              "standby.delay"),
        when=_fewer,
        risk=_without,
        faults=("wal-device",),
    ),
)  # fmt: skip
