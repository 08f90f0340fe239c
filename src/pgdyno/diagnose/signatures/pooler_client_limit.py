"""Pooler at its client limit: it refuses clients, or leaves them in its listen queue, where neither
the server nor the pooler itself shows them.

A client beyond num_init_children of pgpool-II or maxconn of HAProxy is connected, as far as it can
see, and gets no answer; PgBouncer refuses a client beyond max_client_conn, and so does pgpool-II
with reserved_connections. The server meanwhile seems to have few clients and much room.

Trigger, either of:

* the pooler refused a client, by its own words;
* it has as many clients as it accepts, and in the second half of the period most samples have
  ``UNACCEPTED_MIN`` or more connections in its listen queue.

Thresholds: one client in the queue is one that waits for another to disconnect. Connections that a
pooler has yet to accept are in that queue for milliseconds, so that half of the samples, one a
second, do not see them. Calibrated: 0.0 on average with room for all, 12.0 with 20 clients for 8
processes.

Look-alikes: clients that are accepted and wait for a connection to the server are the finding
"pooler"; refusals by the server itself are "connection slots".
"""

from __future__ import annotations

import numpy as np

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.pooler import PoolerInForce, PoolerQueues
from pgdyno.diagnose.facts.refusals import Refusal, refusals_in
from pgdyno.numbers import counted, figure
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.spec.change import Change

UNACCEPTED_MIN = 1
AT_LIMIT = 0.95
"""Clients as a part of the limit, from which on it is reached: a child of pgpool-II that starts
again accepts nobody meanwhile."""
OWN_CLIENTS = 3
"""Connections for the look at the pooler's settings, in addition to the clients'."""
WORTHWHILE_RATIO = 1.03
_ADVICE = {
    "pgpool": (
        "make the application's pools smaller, or raise num_init_children together with the"
        " server's max_connections: each of its processes keeps a connection."
        " reserved_connections = 1 refuses the others instead of leaving them without an answer"
    ),
    "haproxy": (
        "make the application's pools smaller, or raise maxconn together with the server's"
        " max_connections: each client has a connection of its own"
    ),
    "pgbouncer": (
        "raise max_client_conn, and PgBouncer's limit on open files with it: with pool_mode ="
        " transaction more clients need no more connections to the server"
    ),
}


def examine(s: Situation) -> Found | Cleared:
    """Examine the pooler's listen queue and what it refused."""
    if not s.is_pooled:
        none = s.evidence("poolers between clients and server", 0, "count")
        return Cleared("no pooler is between clients and server", [none])
    refused = [each for each in refusals_in(s.run.errors(s.slice_ids)) if not each.is_of_server]
    pooler = s.pooler
    if pooler is None and not refused:
        raise Skip("the queues of a pooler that pgdyno did not start cannot be seen")
    queues = None if pooler is None else s.pooler_queues
    evidence = _evidence(s, pooler, queues, refused)
    if refused:
        return _refused(refused, evidence, pooler)
    assert pooler is not None
    assert queues is not None
    if not _is_full(pooler, queues):
        return Cleared(f"{pooler.name} accepts all clients", evidence)
    accepted, left = float(queues.clients.mean()), float(queues.unaccepted.mean())
    share = left / (accepted + left)
    return Found(
        sentence=(
            f"{counted(left, 'client waits', 'clients wait')} in the listen queue of"
            f" {pooler.name}, which accepts {figure(accepted)}"
            f" ({pooler.client_setting} = {pooler.clients_max}): neither its views nor the"
            " server's show them"
        ),
        share=share,
        liftable=share,
        confidence=0.9,
        evidence=evidence,
        about_to_fail=True,
        proposals=_more_clients(s, pooler, queues),
        advice=_ADVICE[pooler.kind],
    )


def _refused(
    refused: list[Refusal], evidence: list[Evidence], pooler: PoolerInForce | None
) -> Found:
    most = refused[0]
    given = pooler.settings.get(most.limit) if pooler is not None else None
    limit = most.limit if given is None else f"{most.limit} = {given}"
    kind = {"PgBouncer": "pgbouncer", "pgpool-II": "pgpool"}[most.layer]
    return Found(
        sentence=(
            f"{most.layer} refused {counted(most.count, 'connection', 'connections')}: it has as"
            f" many clients as it accepts ({limit})"
        ),
        liftable=0.0,
        confidence=0.95,
        evidence=evidence,
        about_to_fail=True,
        advice=_ADVICE[kind],
    )


def _is_full(pooler: PoolerInForce, queues: PoolerQueues) -> bool:
    """True if it accepts no more clients, and some are waiting for that."""
    limit, later = pooler.clients_max, queues.unaccepted[len(queues.unaccepted) // 2 :]
    if limit is None or float(np.max(queues.clients)) < AT_LIMIT * limit:
        return False
    return float(np.median(later)) >= UNACCEPTED_MIN


def _more_clients(s: Situation, pooler: PoolerInForce, queues: PoolerQueues) -> list[Proposal]:
    """Propose room for all clients, where each has a connection to the server, and the server has
    room for these and is predicted to do more."""
    wanted = round(float(np.max(queues.clients + queues.unaccepted))) + OWN_CLIENTS
    slots = s.run.series("metric_connection", s.slice_ids)["usable"]
    if pooler.shares or (len(slots) and wanted > slots[-1]):
        return []
    ratio = s.loop.ratio_of_more(float(wanted))
    if ratio < WORTHWHILE_RATIO:
        return []
    return [
        Proposal(
            remedy_id="pooler",
            change=Change(spec={f"pooler.{pooler.client_setting}": str(wanted)}),
            predicted_ratio=ratio,
            why=f"{wanted} clients get a connection, and overlap their waits",
            specific=True,
        )
    ]


def _evidence(
    s: Situation, pooler: PoolerInForce | None, queues: PoolerQueues | None, refused: list[Refusal]
) -> list[Evidence]:
    evidence = [
        s.evidence(f"refused by {each.words}", float(each.count), "count", "any")
        for each in refused
    ]
    if queues is None or pooler is None:
        return evidence
    bar = f"at least {UNACCEPTED_MIN} in most samples of the second half"
    evidence += [
        s.evidence("clients in the listen queue", float(queues.unaccepted.mean()), "count", bar),
        s.evidence("most of them", float(np.max(queues.unaccepted)), "count"),
        s.evidence("clients accepted", float(queues.clients.mean()), "count"),
        s.evidence(pooler.client_setting, pooler.clients_max, "count", "reached"),
        s.evidence("server connections in use", float(queues.servers_active.mean()), "count"),
    ]
    return evidence


SIGNATURE = Signature(
    id="pooler-client-limit",
    false_positives=(
        "a limit kept low on purpose, so that clients wait in front of the pooler and not in the"
        " server"
    ),
    examine=examine,
    of_clients=True,
    of_refusals=True,
)
