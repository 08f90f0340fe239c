"""Whether a commit waits for a standby, and for what of it.

Sources, PostgreSQL's documentation: synchronous_commit ("local", "remote_write"; without
synchronous_standby_names only on and off differ) and "Log-Shipping Standby Servers" (asynchronous
replication loses what was not replicated, in proportion to its delay at the failover).
"""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy, Risk

_COPIES = ("none", "written", "flushed")
_FAILOVER = (
    "nothing in a crash that the server recovers from; at a failover the commits that the standby"
    " had not received are lost, in proportion to the replication delay"
)


def _weaker(case: Case) -> bool:
    """A standby surely has less of a commit than before."""
    return _COPIES.index(case.after.copy) < _COPIES.index(case.before.copy)


def _only_here(case: Case) -> bool:
    return _weaker(case) and case.after.commit_level == "local"


def _only_written(case: Case) -> bool:
    return _weaker(case) and case.after.copy == "written"


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
            "nothing in a crash that the server recovers from; at a failover commits are lost that"
            " only standbys had which are lost too",
        )
    return Risk("D1", _FAILOVER)


REMEDIES = (
    Remedy(
        id="synchronous-commit-local",
        summary="answer a commit when it is flushed here, without waiting for a standby",
        kind="reload",
        durability_class="D1",
        bound=_FAILOVER,
        price="the standby is of less use: what it lacks at a failover is lost",
        settings=("synchronous_commit",),
        keys=("standby.mode",),
        when=_only_here,
        faults=("wal-device",),
    ),
    Remedy(
        id="synchronous-commit-remote-write",
        summary="answer a commit when a standby's operating system has it, flushed or not",
        kind="reload",
        durability_class="D1",
        bound=(
            "nothing when the standby's PostgreSQL crashes; when its operating system does, what it"
            " had not flushed is lost if the primary is lost as well"
        ),
        price="a commit still waits for the network",
        settings=("synchronous_commit",),
        keys=("standby.mode",),
        when=_only_written,
        faults=("wal-device",),
    ),
    Remedy(
        id="synchronous-standbys-fewer",
        summary="wait for fewer standbys, or for none",
        kind="reload",
        durability_class="D1",
        bound=_FAILOVER,
        price="fewer copies of the last commits when the server is lost",
        settings=("synchronous_standby_names",),
        keys=("standby.count", "standby.mode", "standby.quorum", "standby.receivewal",
              "standby.delay"),
        when=_fewer,
        risk=_without,
        faults=("wal-device",),
    ),
)  # fmt: skip
