"""Client pool limit: clients queue for a connection while the server could do more.

Trigger: clients of a group wait for a connection for at least ``WAIT_SHARE`` of their response
time, the pool's connections are in use nearly all the time, the host's CPU is not saturated, and
the model predicts that more sessions would do more work.

In an open loop that asks for more than the server can do, any pool is in use all the time and the
wait for it grows without end. That alone makes no pool limit: the model's prediction decides, as in
a closed loop, and the intended and the reached rate are evidence.

Where other programs keep the cores busy, the pool is still what clients wait for, but more sessions
are not predicted to do more work.

Thresholds: no published tool has one (it takes the clients' own clocks); calibrated by injection,
pools of 2 against 16 clients and of 16 against 8.
"""

from __future__ import annotations

from pgdyno.diagnose._pools import IDLE_SHARE, RUNNABLE_PER_CORE, cores_taken, larger_pools
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.client_group import Group
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence

WAIT_SHARE = 0.2
IN_USE = 0.85


def examine(s: Situation) -> Found | Cleared:
    """Examine the group whose clients wait longest for a connection."""
    pooled = [group for group in s.groups if group.pool_max is not None]
    if not pooled:
        return Cleared("no client group has a pool", [s.evidence("client pools", 0, "count")])
    group = max(pooled, key=_wait_share)
    evidence = _evidence(s, group)
    if _wait_share(group) < WAIT_SHARE or _in_use(group) < IN_USE:
        return Cleared(
            f"clients wait {percent(_wait_share(group))} of their response time for one of"
            f" {group.pool_words}",
            evidence,
            parts=("pool wait",),
        )
    idle, proposals = _idle_share(s), larger_pools(s, group)
    if not proposals and not cores_taken(s):
        return Cleared(
            f"clients queue for {group.pool_words}, but the server is busy:"
            " with more of them they would queue inside it",
            evidence,
        )
    server = "" if idle is None else f" while the server's machine is {percent(idle)} idle"
    if cores_taken(s):
        server = ", and other programs take the cores that more of them would need"
    return Found(
        sentence=(
            f"clients wait {figure(group.pool_wait_ms)} of {figure(group.response_ms)} ms for one"
            f" of {group.pool_words}{server}"
        ),
        parts=("pool wait",),
        liftable=proposals[0].prediction.lifted if proposals else 0.0,
        confidence=0.9 if idle is not None else 0.6,
        evidence=evidence,
        causes=("commit-flush",) if s.budget.service_share("flush", "images") >= 0.5 else (),
        proposals=proposals,
    )


def _wait_share(group: Group) -> float:
    return group.pool_wait_ms / group.response_ms if group.response_ms else 0.0


def _in_use(group: Group) -> float:
    return group.in_service / group.pooled if group.pooled else 0.0


def _idle_share(s: Situation) -> float | None:
    return None if s.cpu_if_recorded is None else s.cpu.idle_share


def _evidence(s: Situation, group: Group) -> list[Evidence]:
    evidence = [
        s.evidence(
            "wait for a connection / response time",
            _wait_share(group),
            "share",
            f"at least {percent(WAIT_SHARE)}",
        ),
        s.evidence("wait for a connection", group.pool_wait_ms, "ms"),
        s.evidence("response time", group.response_ms, "ms"),
        s.evidence(
            "connections in use / pool size", _in_use(group), "share", f"at least {percent(IN_USE)}"
        ),
        s.evidence("pool size", group.pool_max, "count"),
        s.evidence("instances", group.instances, "count"),
        s.evidence("clients", group.clients, "count"),
    ]
    for account in s.accounts:
        if account.name == group.name and account.asked_tps is not None:
            evidence += [
                s.evidence("intended rate", account.asked_tps, "tps"),
                s.evidence("reached rate", account.done_tps, "tps"),
            ]
    idle = _idle_share(s)
    if idle is not None:
        evidence += [
            s.evidence("host CPU idle", idle, "share", f"at least {percent(IDLE_SHARE)}"),
            s.evidence(
                "sessions running or ready to run",
                s.runnable,
                "sessions",
                f"or less than {RUNNABLE_PER_CORE:g} per core",
            ),
        ]
    return evidence


SIGNATURE = Signature(
    id="client-pool",
    false_positives=(
        "a pool kept small on purpose to protect the server; connections held while the client does"
        " something else, which a larger pool would only hide"
    ),
    examine=examine,
    of_clients=True,
)
